"""Shift, crop, turn, zoom and reflection as one map of each image, resampled once.

Shapes: N images, C channels, H height, W width.
"""

import math
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from hpo.training.augmentation.recipe import Strengths

MAX_SHIFT: Final = 0.125
MAX_ROTATION_DEGREES: Final = 15.0
MAX_SCALE: Final = 0.15
MIN_CROP_AREA: Final = 0.25
MAX_CROP_ASPECT: Final = 4 / 3

NUM_DRAWS: Final = 9
"""Numbers for each image, whatever is switched on, so that one operation moves no other's."""


def is_affine(strengths: Strengths) -> bool:
    """Return whether any operation moves pixels."""
    return any(
        (strengths.translate, strengths.crop, strengths.rotation, strengths.scale, strengths.flip)
    )


def move(images_NCHW: Tensor, draws_ND: Tensor, strengths: Strengths) -> Tensor:
    """Return moved images, resampled bilinearly, black outside.

    Args:
        images_NCHW: float pixels.
        draws_ND: `NUM_DRAWS` numbers from 0 to 1 for each image, on the CPU.
        strengths: of the operations.
    """
    height, width = images_NCHW.shape[2:]
    return resample(images_NCHW, _maps(draws_ND, height, width, strengths))


def _maps(draws_ND: Tensor, height: int, width: int, strengths: Strengths) -> Tensor:
    """Return the affine map from each result to its original, in coordinates from -1 to 1."""
    signed = (2 * draws_ND - 1).unbind(dim=1)
    angle_N = signed[0] * strengths.rotation * math.radians(MAX_ROTATION_DEGREES)
    zoom_N = 1 / (1 + signed[1] * strengths.scale * MAX_SCALE)
    shift_x_N = (signed[2] * strengths.translate * MAX_SHIFT * width).round() * 2 / width
    shift_y_N = (signed[3] * strengths.translate * MAX_SHIFT * height).round() * 2 / height
    mirror_N = torch.where(draws_ND[:, 4] < strengths.flip / 2, -1.0, 1.0)
    # A part of this share of each side, anywhere inside: the rest is left to its two sides.
    area_N = 1 - draws_ND[:, 5] * strengths.crop * (1 - MIN_CROP_AREA)
    aspect_N = (signed[6] * strengths.crop * math.log(MAX_CROP_ASPECT) / 2).exp()
    part_x_N = (area_N.sqrt() * aspect_N).clamp(max=1)
    part_y_N = (area_N.sqrt() / aspect_N).clamp(max=1)
    shift_x_N = shift_x_N + signed[7] * (1 - part_x_N)
    shift_y_N = shift_y_N + signed[8] * (1 - part_y_N)
    # in pixels a turn keeps lengths; in coordinates from -1 to 1 sides must be equal for that
    ratio = height / width
    cos_N, sin_N = zoom_N * angle_N.cos(), zoom_N * angle_N.sin()
    row_x = torch.stack([mirror_N * cos_N * part_x_N, -sin_N * part_x_N * ratio, shift_x_N], dim=1)
    row_y = torch.stack([mirror_N * sin_N * part_y_N / ratio, cos_N * part_y_N, shift_y_N], dim=1)
    return torch.stack([row_x, row_y], dim=1)


def resample(images_NCHW: Tensor, maps_N23: Tensor) -> Tensor:
    """Return each image as its map tells, bilinearly, black outside."""
    grid = functional.affine_grid(
        maps_N23.to(images_NCHW.device), list(images_NCHW.shape), align_corners=False
    )
    return functional.grid_sample(images_NCHW, grid, align_corners=False)
