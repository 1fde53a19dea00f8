"""Images that two splits share: what a model has seen in training proves nothing in a test.

Shapes: N images, C channels, H height, W width.
"""

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from hpo.training.data.inspection.features import features, nearest

NEAR_SHARE: Final = 0.2
"""An image is a near duplicate where it is closer than this share of the usual distance from an
image to its nearest neighbour. On MNIST, whose digits are much alike, that names 4 pairs of
70 000 images."""

MOST_COMPARED: Final = 60_000
"""Images of one split that near duplicates are looked for among; the first ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two images of different splits that are one picture."""

    splits: tuple[str, str]
    indices: tuple[int, int]
    """In the whole set."""
    distance: float
    """0 for equal pixels; otherwise as `nearest` measures."""
    is_label_equal: bool


def exact_duplicates(
    images_NCHW: Tensor, targets: Tensor, split: Mapping[str, Tensor]
) -> list[Pair]:
    """Return every pair of equal pixels across two splits; one pair an image and split."""
    places: defaultdict[bytes, dict[str, int]] = defaultdict(dict)
    for name, indices in split.items():
        for index in indices.tolist():
            digest = hashlib.sha256(images_NCHW[index].numpy().tobytes()).digest()
            places[digest].setdefault(name, index)
    return [
        _pair((one, other), (found[one], found[other]), 0.0, targets)
        for found in places.values()
        for one, other in itertools.combinations(found, 2)
    ]


def near_duplicates(
    images_NCHW: Tensor, targets: Tensor, split: Mapping[str, Tensor]
) -> list[Pair]:
    """Return pairs across two splits that are nearly one picture, the nearest first.

    Each image of one split is compared with its nearest neighbour in the other. Images without
    any contrast are left out: they are all one picture.
    """
    rows = {}
    for name, indices in split.items():
        kept = indices[:MOST_COMPARED].tolist()
        found = features(images_NCHW, kept)
        has_contrast = found.norm(dim=1) > 0.5
        rows[name] = (found[has_contrast], indices[:MOST_COMPARED][has_contrast])
    pairs: list[Pair] = []
    for one, other in itertools.combinations(rows, 2):
        (others_MD, other_indices), (queries_ND, indices) = rows[one], rows[other]
        if not len(others_MD) or not len(queries_ND):
            continue
        distances, places = nearest(queries_ND, others_MD, 1)
        limit = NEAR_SHARE * float(distances.median())
        for row in (distances[:, 0] <= limit).nonzero().flatten().tolist():
            first = int(other_indices[places[row, 0]])
            second = int(indices[row])
            if not images_NCHW[first].equal(images_NCHW[second]):
                distance = float(distances[row, 0])
                pairs.append(_pair((one, other), (first, second), distance, targets))
    return sorted(pairs, key=lambda pair: pair.distance)


def _pair(
    splits: tuple[str, str], indices: tuple[int, int], distance: float, targets: Tensor
) -> Pair:
    first, second = indices
    return Pair(
        splits=splits,
        indices=indices,
        distance=distance,
        is_label_equal=bool(targets[first].equal(targets[second])),
    )
