"""`Source`: the first layer. It reads one sample by its index, and nothing else.

Shapes: N images, K target columns, C channels, H height, W width.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

import torch
from torch import Tensor

TO_DIVIDE: Final = -1
"""The split code of an example that belongs to no split yet."""

TRAIN, VAL, TEST = 0, 1, 2


class TargetKind(StrEnum):
    """What is to be predicted."""

    CLASS = "class"
    """One class index an image: int64 (N,)."""
    MULTILABEL = "multilabel"
    """Any number of labels an image: float32 0 or 1 (N, K)."""
    SOFT = "soft"
    """A probability for each class: float32 (N, K), rows sum to 1."""
    REGRESSION = "regression"
    """Numbers: float32 (N, K)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """Everything of a source but its pixels."""

    targets: Tensor
    """int64 (N,) class indices, or float32 (N, K)."""
    target_kind: TargetKind
    class_labels: tuple[str, ...]
    """For people: of each class, or of each target column."""
    given_splits_N: Tensor  # noqa: N815  # a shape suffix
    """int8: `TRAIN`, `VAL`, `TEST`, or `TO_DIVIDE`."""
    pixel_scale: float
    """The largest raw pixel value: 16 for digits, 255 for bytes, 1 for floats."""


class Source(Protocol):
    """A set of images.

    1. `read` returns one image as it is, uint8 or float32 CHW: not scaled, cropped or varied.
    2. Equal indices give equal images, in any order, from several threads at a time.
    3. An image that cannot be decoded raises `BadImageError`; its index stays its own.
    """

    @property
    def facts(self) -> SourceFacts:
        """Targets, classes and given splits, by index."""
        ...

    def read(self, index: int) -> Tensor:
        """Return image_CHW."""
        ...

    def name(self, index: int) -> str:
        """Return what a person would find the image by."""
        ...


class BadImageError(Exception):
    """An image cannot be decoded; the text says why."""


def all_to_divide(num_images: int) -> Tensor:
    """Return the given splits of a set that has none."""
    return torch.full((num_images,), TO_DIVIDE, dtype=torch.int8)
