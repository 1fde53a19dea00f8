"""Random variations of training images, a new one for each image in each epoch.

Shapes: N images, C channels, H height, W width.
"""

import math
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

MAX_SHIFT: Final = 0.125
"""Of the image's side, in either direction: 1 pixel of 8, 4 of 32 as is usual for CIFAR-10."""
MAX_ROTATION_DEGREES: Final = 15.0
"""To either side; 6 and 9, or 1 and 7, stay apart."""
MAX_SCALE: Final = 0.15
"""Smaller or larger by this share."""

_MIRRORED_SETS: Final = frozenset({"cifar10"})
"""Sets whose classes survive left-right reflection; digits do not."""


class Augmentation:
    """The recipe at one strength.

    Each image is rotated, scaled and shifted by one affine map, resampled bilinearly with black
    outside, then, in CIFAR-10 alone, mirrored left to right with probability strength / 2.
    Rotation, scale and shift are uniform between minus and plus strength times the maxima above,
    the shift rounded to whole pixels. Strength 0 does nothing and draws nothing.
    """

    def __init__(self, strength: float, data: str, generator: torch.Generator) -> None:
        """Hold the stream to draw from.

        Args:
            strength: 0 (none) to 1 (the most).
            data: name of the image set.
            generator: on the CPU, so that every device sees the same images.
        """
        self._strength = strength
        self._is_mirrored = data in _MIRRORED_SETS
        self._generator = generator

    def __call__(self, images_NCHW: Tensor) -> Tensor:
        """Return varied images as float raw pixels; at strength 0 the very images given."""
        if self._strength == 0:
            return images_NCHW
        maps_N23 = self._draw_maps(len(images_NCHW), *images_NCHW.shape[2:])
        grid = functional.affine_grid(
            maps_N23.to(images_NCHW.device), list(images_NCHW.shape), align_corners=False
        )
        return functional.grid_sample(images_NCHW.float(), grid, align_corners=False)

    def _draw_maps(self, num_images: int, height: int, width: int) -> Tensor:
        """Return the affine map from each result to its original, in coordinates from -1 to 1."""
        # All five numbers are drawn for each image whatever the set, in one call.
        draws_N5 = torch.rand(num_images, 5, generator=self._generator)
        signed_N5 = (2 * draws_N5 - 1) * self._strength
        angle_N = signed_N5[:, 0] * math.radians(MAX_ROTATION_DEGREES)
        zoom_N = 1 / (1 + signed_N5[:, 1] * MAX_SCALE)
        shift_x_N = (signed_N5[:, 2] * MAX_SHIFT * width).round() * 2 / width
        shift_y_N = (signed_N5[:, 3] * MAX_SHIFT * height).round() * 2 / height
        cos_N, sin_N = zoom_N * angle_N.cos(), zoom_N * angle_N.sin()
        if self._is_mirrored:
            mirror_N = torch.where(draws_N5[:, 4] < self._strength / 2, -1.0, 1.0)
        else:
            mirror_N = torch.ones(num_images)
        row_x = torch.stack([mirror_N * cos_N, -sin_N, shift_x_N], dim=1)
        row_y = torch.stack([mirror_N * sin_N, cos_N, shift_y_N], dim=1)
        return torch.stack([row_x, row_y], dim=1)
