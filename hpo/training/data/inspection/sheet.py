"""A picture of a data set: some images of every class, one class below the other.

Shapes: N images, C channels, H height, W width.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

MOST_IMAGES: Final = 100
"""Of one class."""

MOST_TILES: Final = 5000
"""Of the whole sheet: classes share them, each gets at least one row of them."""

MOST_CLASSES: Final = 200

COLUMNS: Final = 25

SMALLEST_SIDE, LARGEST_SIDE = 24, 64
"""Pixels of a tile: small images are enlarged by a whole number, large ones made smaller."""

_CAPTION_HEIGHT: Final = 16


def write_sheet(
    path: Path,
    images_NCHW: Tensor,
    groups: Sequence[tuple[str, Sequence[int]]],
    pixel_scale: float,
) -> int:
    """Draw the first images of each group and return how many images were drawn.

    Args:
        path: of the PNG file.
        images_NCHW: of the whole set.
        groups: the caption and the image indices of each class.
        pixel_scale: the largest raw pixel; floats are stretched from their least to their largest.
    """
    groups = groups[:MOST_CLASSES]
    most = max(COLUMNS, min(MOST_IMAGES, MOST_TILES // max(1, len(groups))))
    shown = [(caption, list(indices[:most])) for caption, indices in groups]
    side = _side(max(images_NCHW.shape[2:]))
    heights = [_CAPTION_HEIGHT + -(-len(indices) // COLUMNS) * (side + 1) for _, indices in shown]
    sheet = Image.new("RGB", (COLUMNS * (side + 1), sum(heights)), "white")
    draw = ImageDraw.Draw(sheet)
    top = 0
    for (caption, indices), height in zip(shown, heights, strict=True):
        draw.text((2, top + 2), caption, fill="black")
        for place, index in enumerate(indices):
            row, column = divmod(place, COLUMNS)
            tile = _tile(images_NCHW[index], pixel_scale, side)
            sheet.paste(tile, (column * (side + 1), top + _CAPTION_HEIGHT + row * (side + 1)))
        top += height
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, format="PNG")
    return sum(len(indices) for _, indices in shown)


def _side(image_side: int) -> int:
    if image_side >= LARGEST_SIDE:
        return LARGEST_SIDE
    return image_side * max(1, -(-SMALLEST_SIDE // image_side))


def _tile(image_CHW: Tensor, pixel_scale: float, side: int) -> Any:
    pixels = image_CHW.numpy().astype(np.float64)
    if pixel_scale == 1.0:
        low, high = pixels.min(), pixels.max()
        pixels = (pixels - low) / max(high - low, 1e-12)
    else:
        pixels = pixels / pixel_scale
    grey_or_rgb = (255 * pixels.clip(0, 1)).round().astype(np.uint8)
    if grey_or_rgb.shape[0] != 3:
        grey_or_rgb = grey_or_rgb[:1].repeat(3, axis=0)
    tile = Image.fromarray(grey_or_rgb.transpose(1, 2, 0))
    scale = side / max(tile.size)
    size = (max(1, round(tile.width * scale)), max(1, round(tile.height * scale)))
    how = Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.BOX
    return tile.resize(size, how)
