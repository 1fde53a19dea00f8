"""RandAugment: a few operations, drawn anew for each image, at one magnitude.

Shapes: N images, C channels, H height, W width.
"""

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from hpo.training.augmentation.affine import resample
from hpo.training.augmentation.color import blend, grey

MAX_SHEAR: Final = 0.3
MAX_SHIFT: Final = 0.45
MAX_ROTATION_DEGREES: Final = 30.0
MAX_FACTOR: Final = 0.9
MAX_LOST_LEVELS: Final = 0.94
"""What magnitude 1 means; of 256 grey levels, 16 stay."""

Operation = Callable[[Tensor, Tensor, float], Tensor]
"""Images_NCHW in float pixels, magnitude_N from -1 to 1, pixel scale -> images_NCHW."""


def _identity(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:  # noqa: ARG001
    return images_NCHW


def _affine(
    magnitude_N: Tensor, images_NCHW: Tensor, entry: tuple[int, int], most: float
) -> Tensor:
    maps_N23 = torch.eye(2, 3).repeat(len(magnitude_N), 1, 1)
    maps_N23[:, entry[0], entry[1]] += magnitude_N * most
    return resample(images_NCHW, maps_N23)


def _shear_x(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:  # noqa: ARG001
    return _affine(magnitude_N, images_NCHW, (0, 1), MAX_SHEAR)


def _shear_y(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:  # noqa: ARG001
    return _affine(magnitude_N, images_NCHW, (1, 0), MAX_SHEAR)


def _translate_x(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:  # noqa: ARG001
    return _affine(magnitude_N, images_NCHW, (0, 2), 2 * MAX_SHIFT)


def _translate_y(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:  # noqa: ARG001
    return _affine(magnitude_N, images_NCHW, (1, 2), 2 * MAX_SHIFT)


def _rotate(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:  # noqa: ARG001
    angle_N = magnitude_N * math.radians(MAX_ROTATION_DEGREES)
    ratio = images_NCHW.shape[2] / images_NCHW.shape[3]
    cos_N, sin_N, zero_N = angle_N.cos(), angle_N.sin(), torch.zeros_like(angle_N)
    row_x = torch.stack([cos_N, -sin_N * ratio, zero_N], dim=1)
    row_y = torch.stack([sin_N / ratio, cos_N, zero_N], dim=1)
    return resample(images_NCHW, torch.stack([row_x, row_y], dim=1))


def _brightness(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:
    black = torch.zeros((), device=images_NCHW.device)
    return blend(images_NCHW, black, 1 + magnitude_N * MAX_FACTOR, pixel_scale)


def _contrast(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:
    mean_N111 = grey(images_NCHW).mean(dim=(1, 2, 3), keepdim=True)
    return blend(images_NCHW, mean_N111, 1 + magnitude_N * MAX_FACTOR, pixel_scale)


def _saturation(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:
    return blend(images_NCHW, grey(images_NCHW), 1 + magnitude_N * MAX_FACTOR, pixel_scale)


def _sharpness(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:
    smooth_NCHW = torch.nn.functional.avg_pool2d(
        images_NCHW, 3, stride=1, padding=1, count_include_pad=False
    )
    return blend(images_NCHW, smooth_NCHW, 1 + magnitude_N * MAX_FACTOR, pixel_scale)


def _posterize(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:
    level_N = (1 + (255 * (1 - magnitude_N.abs() * MAX_LOST_LEVELS)).floor()) / 256
    levels = (level_N * 256).to(images_NCHW.device).reshape(-1, 1, 1, 1)
    step = (pixel_scale / (levels - 1)).clamp(max=pixel_scale)
    return (images_NCHW / step).round() * step


def _solarize(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:
    limit_N = pixel_scale * (1 - magnitude_N.abs())
    limit = limit_N.to(images_NCHW.device).reshape(-1, 1, 1, 1)
    return torch.where(images_NCHW > limit, pixel_scale - images_NCHW, images_NCHW)


def _auto_contrast(images_NCHW: Tensor, magnitude_N: Tensor, pixel_scale: float) -> Tensor:  # noqa: ARG001
    low = images_NCHW.amin(dim=(2, 3), keepdim=True)
    spread = images_NCHW.amax(dim=(2, 3), keepdim=True) - low
    stretched_NCHW = (images_NCHW - low) * (pixel_scale / spread.clamp(min=1e-6))
    return torch.where(spread > 0, stretched_NCHW, images_NCHW)


_ANY: Final[tuple[Operation, ...]] = (
    _identity,
    _shear_x,
    _shear_y,
    _translate_x,
    _translate_y,
    _rotate,
    _brightness,
    _contrast,
    _sharpness,
    _posterize,
    _solarize,
    _auto_contrast,
)
_COLOR: Final[tuple[Operation, ...]] = (*_ANY, _saturation)


class RandAugment:
    """Applies to each image a few operations in turn, each drawn from a list.

    The list is the source's for images of three channels; others are spared its saturation. Signs
    are drawn too.

    Source: Cubuk et al. 2020, "RandAugment", section 3 and figure 2.
    Differs: no equalize, which has no batched form; posterize rounds to any number of levels.
    """

    def __init__(
        self, num_ops: int, magnitude: float, pixel_scale: float, generator: torch.Generator
    ) -> None:
        """Hold the stream to draw from.

        Args:
            num_ops: operations for each image.
            magnitude: 0 to 1.
            pixel_scale: the largest raw pixel value.
            generator: on the CPU.
        """
        self._num_ops = num_ops
        self._magnitude = magnitude
        self._pixel_scale = pixel_scale
        self._generator = generator

    def __call__(self, images_NCHW: Tensor) -> Tensor:
        """Return varied images of float pixels."""
        operations = _COLOR if images_NCHW.shape[1] == 3 else _ANY
        num_images = len(images_NCHW)
        for _ in range(self._num_ops):
            choice_N = torch.randint(len(operations), (num_images,), generator=self._generator)
            is_up_N = torch.rand(num_images, generator=self._generator) < 0.5
            magnitude_N = torch.where(is_up_N, self._magnitude, -self._magnitude)
            images_NCHW = self._apply(operations, images_NCHW, choice_N, magnitude_N)
        return images_NCHW

    def _apply(
        self,
        operations: tuple[Operation, ...],
        images_NCHW: Tensor,
        choice_N: Tensor,
        magnitude_N: Tensor,
    ) -> Tensor:
        """Apply each operation to the images that drew it, all at once."""
        result_NCHW = images_NCHW.clone()
        for index, operation in enumerate(operations):
            chosen_M = (choice_N == index).nonzero().squeeze(1)
            if operation is not _identity and len(chosen_M):
                places_M = chosen_M.to(images_NCHW.device)
                varied = operation(
                    images_NCHW.index_select(0, places_M), magnitude_N[chosen_M], self._pixel_scale
                )
                result_NCHW.index_copy_(0, places_M, varied)
        return result_NCHW
