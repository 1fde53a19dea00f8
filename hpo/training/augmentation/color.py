"""Brightness, contrast and saturation.

Shapes: N images, C channels, H height, W width.
"""

from typing import Final

import torch
from torch import Tensor

MAX_CHANGE: Final = 0.4
"""Of each factor, up or down, at strength 1."""
NUM_DRAWS: Final = 3

_LUMINANCE: Final = (0.299, 0.587, 0.114)
"""Of red, green and blue: ITU-R BT.601, as Pillow and torchvision."""


def grey(images_NCHW: Tensor) -> Tensor:
    """Return the luminance of each pixel, in one channel."""
    if images_NCHW.shape[1] != 3:
        return images_NCHW.mean(dim=1, keepdim=True)
    weights = torch.tensor(_LUMINANCE, device=images_NCHW.device).reshape(1, 3, 1, 1)
    return (images_NCHW * weights).sum(dim=1, keepdim=True)


def blend(images_NCHW: Tensor, others: Tensor, factors_N: Tensor, pixel_scale: float) -> Tensor:
    """Return others + factor (images - others), within the range of pixels."""
    factors = factors_N.to(images_NCHW.device).reshape(-1, 1, 1, 1)
    return torch.lerp(others, images_NCHW, factors).clamp_(0, pixel_scale)


def vary_color(
    images_NCHW: Tensor, draws_ND: Tensor, strength: float, pixel_scale: float
) -> Tensor:
    """Return images of other brightness, contrast and saturation, each by a factor near 1.

    Args:
        images_NCHW: float pixels of three channels, 0 to `pixel_scale`.
        draws_ND: `NUM_DRAWS` numbers from 0 to 1 for each image, on the CPU.
        strength: above 0 to 1.
        pixel_scale: the largest raw pixel value.
    """
    brightness_N, contrast_N, saturation_N = (
        1 + (2 * draws_ND - 1) * strength * MAX_CHANGE
    ).unbind(dim=1)
    black = torch.zeros((), device=images_NCHW.device)
    images_NCHW = blend(images_NCHW, black, brightness_N, pixel_scale)
    mean_N111 = grey(images_NCHW).mean(dim=(1, 2, 3), keepdim=True)
    images_NCHW = blend(images_NCHW, mean_N111, contrast_N, pixel_scale)
    return blend(images_NCHW, grey(images_NCHW), saturation_N, pixel_scale)
