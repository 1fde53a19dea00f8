"""Images that are in memory already."""

from torch import Tensor

from hpo.training.data.source import SourceFacts


class TensorSource:
    """Images of one size, held as one tensor; fulfils `Source`."""

    def __init__(self, images_NCHW: Tensor, facts: SourceFacts) -> None:
        """Hold uint8 or float32 images."""
        self._images_NCHW = images_NCHW
        self._facts = facts

    @property
    def facts(self) -> SourceFacts:
        """Targets, classes and given splits, by index."""
        return self._facts

    def read(self, index: int) -> Tensor:
        """Return image_CHW."""
        return self._images_NCHW[index]

    def name(self, index: int) -> str:
        """Return the image's place."""
        return f"image {index}"
