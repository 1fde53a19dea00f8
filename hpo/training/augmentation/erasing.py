"""Random rectangles: where images are erased, and where CutMix pastes.

Shapes: N images, C channels, H height, W width.
"""

import math
from typing import Final

import torch
from torch import Tensor

MIN_AREA: Final = 0.02
MAX_AREA: Final = 0.2
MIN_ASPECT: Final = 0.3
"""Height over width, and its inverse at the other end. As in torchvision's RandomErasing, but for
the largest area, there a third of the image: few digits of 8 pixels can be read behind that."""
NUM_DRAWS: Final = 5


def rectangles(
    sides_N2: Tensor, centres_N2: Tensor, height: int, width: int
) -> tuple[Tensor, Tensor]:
    """Return masks of rectangles, and the share of the image that each covers.

    Args:
        sides_N2: height and width as shares of the image's.
        centres_N2: of the rectangle, as shares; what lies outside of the image is cut off.
        height: of the image, in pixels.
        width: of the image, in pixels.

    Returns:
        mask_N1HW, true inside; share_N from 0 to 1.
    """
    pixels = torch.tensor([height, width], dtype=torch.float32)
    low_N2 = ((centres_N2 - sides_N2 / 2) * pixels).round().clamp(min=0)
    high_N2 = torch.minimum(((centres_N2 + sides_N2 / 2) * pixels).round(), pixels)
    rows_H, columns_W = torch.arange(height), torch.arange(width)
    is_row_NH = (rows_H >= low_N2[:, :1]) & (rows_H < high_N2[:, :1])
    is_column_NW = (columns_W >= low_N2[:, 1:]) & (columns_W < high_N2[:, 1:])
    mask_N1HW = (is_row_NH.unsqueeze(2) & is_column_NW.unsqueeze(1)).unsqueeze(1)
    return mask_N1HW, mask_N1HW.float().mean(dim=(1, 2, 3))


def erase(images_NCHW: Tensor, draws_ND: Tensor, share: float, fill_1C11: Tensor) -> Tensor:
    """Return images of which a share has a rectangle in one colour.

    Args:
        images_NCHW: float pixels.
        draws_ND: `NUM_DRAWS` numbers from 0 to 1 for each image, on the CPU.
        share: of images, above 0 to 1.
        fill_1C11: the colour.
    """
    height, width = images_NCHW.shape[2:]
    area_N = MIN_AREA + draws_ND[:, 1] * (MAX_AREA - MIN_AREA)
    aspect_N = ((2 * draws_ND[:, 2] - 1) * math.log(1 / MIN_ASPECT)).exp()
    sides_N2 = torch.stack([(area_N * aspect_N).sqrt(), (area_N / aspect_N).sqrt()], dim=1)
    # inside of the image, and one pixel at least
    sides_N2 = torch.maximum(sides_N2, 1 / torch.tensor([height, width])).clamp_(max=1)
    centres_N2 = sides_N2 / 2 + draws_ND[:, 3:] * (1 - sides_N2)
    mask_N1HW, _ = rectangles(sides_N2, centres_N2, height, width)
    mask_N1HW &= (draws_ND[:, 0] < share).reshape(-1, 1, 1, 1)
    return torch.where(mask_N1HW.to(images_NCHW.device), fill_1C11, images_NCHW)
