"""Images as short vectors, and each image's nearest others.

Shapes: N images, M images, D numbers an image, C channels, H height, W width.
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

SIDE: Final = 16
"""Images are looked at in at most so many pixels a side: enough to tell one picture from another,
and a copy stays a copy after scaling and compression."""

_CHUNK: Final = 1024


def features(images_NCHW: Tensor, indices: Sequence[int]) -> Tensor:
    """Return small, centred images of length 1 as rows: float32 (N, D).

    Brightness and contrast are taken out. Two rows' product is the correlation of their pixels.
    """
    rows: list[Tensor] = []
    for start in range(0, len(indices), _CHUNK):
        images = images_NCHW[torch.tensor(indices[start : start + _CHUNK])].float()
        height, width = images.shape[2:]
        if max(height, width) > SIDE:
            images = functional.interpolate(
                images, (min(height, SIDE), min(width, SIDE)), mode="area"
            )
        flat_ND = images.flatten(1)
        flat_ND = flat_ND - flat_ND.mean(dim=1, keepdim=True)
        rows.append(functional.normalize(flat_ND, dim=1))
    return torch.cat(rows)


def nearest(
    queries_ND: Tensor, others_MD: Tensor, count: int, *, is_same: bool = False
) -> tuple[Tensor, Tensor]:
    """Return distances (N, count) and indices (N, count) of the nearest others, nearest first.

    Distances are those of unit vectors: 0 for equal pictures, 1.4 for unrelated ones.

    Args:
        queries_ND: rows of `features`.
        others_MD: likewise.
        count: how many to find, at most M.
        is_same: both are one set, in which no image is its own neighbour.
    """
    distances: list[Tensor] = []
    indices: list[Tensor] = []
    for start in range(0, len(queries_ND), _CHUNK):
        products_NM = queries_ND[start : start + _CHUNK] @ others_MD.T
        if is_same:
            rows = torch.arange(len(products_NM))
            products_NM[rows, rows + start] = -2.0
        best, places = products_NM.topk(count, dim=1)
        distances.append((2 - 2 * best).clamp(min=0).sqrt())
        indices.append(places)
    return torch.cat(distances), torch.cat(indices)
