"""The second layer: an image as it came -> an image of the size that is trained on.

It is fixed arithmetic, done once and kept on disk, the same for every split. What is random is
not here: `hpo.training.augmentation` varies training batches on the device, and validation and
test batches never pass through it.

Shapes: C channels, H height, W width.
"""

from torch import Tensor
from torch.nn import functional


class Prescale:
    """Scales the shorter side to `image_size` and cuts a square from the centre.

    Pixels are averaged over what they cover (antialias), so that making an image smaller loses no
    line. `image_size` 0 leaves images alone.
    """

    def __init__(self, image_size: int) -> None:
        """Hold the side in pixels."""
        self._size = image_size

    def __call__(self, image_CHW: Tensor) -> Tensor:
        """Return the image at its new size, in the type that it came in."""
        if not self._size:
            return image_CHW
        height, width = image_CHW.shape[1:]
        if height != self._size or width != self._size:
            shorter = min(height, width)
            new_height = max(self._size, round(height * self._size / shorter))
            new_width = max(self._size, round(width * self._size / shorter))
            image_CHW = functional.interpolate(
                image_CHW.unsqueeze(0),
                (new_height, new_width),
                mode="bilinear",
                align_corners=False,
                antialias=True,
            ).squeeze(0)
        top = (image_CHW.shape[1] - self._size) // 2
        left = (image_CHW.shape[2] - self._size) // 2
        return image_CHW[:, top : top + self._size, left : left + self._size]
