"""A split held whole on the training device: a batch is one gather, and there is no loader.

Shapes: N images, K target columns, C channels, H height, W width.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from hpo.training.data.batch import Batch, Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One part of an image set; fulfils `Examples`."""

    images_NCHW: Tensor  # noqa: N815  # a shape suffix
    """uint8 raw pixels, or float32 where the data has floats."""
    labels_N: Tensor  # noqa: N815  # a shape suffix
    """int64 (N,) class indices, or float32 (N, K)."""

    def __len__(self) -> int:
        return len(self.labels_N)

    def batches(self, bounds: Bounds, order_N: Tensor | None = None) -> Iterator[Batch]:
        """Yield a batch for each start and end."""
        if order_N is None:
            for start, end in bounds:
                yield Batch(
                    images_NCHW=self.images_NCHW[start:end], labels_N=self.labels_N[start:end]
                )
            return
        order_N = order_N.to(self.labels_N.device)
        for start, end in bounds:
            indices = order_N[start:end]
            yield Batch(
                images_NCHW=self.images_NCHW.index_select(0, indices),
                labels_N=self.labels_N.index_select(0, indices),
            )
