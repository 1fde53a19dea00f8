"""A prepared image set held whole on the training device.

Shapes: N images, C channels, H height, W width.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from hpo.domain.search_space import Params
from hpo.training.config import ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.data.prepare import (
    DataDamagedError,
    cache_paths,
    fingerprint,
    prepare_data,
    read_pixels,
    read_split,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One part of an image set."""

    images_NCHW: Tensor  # noqa: N815  # a shape suffix
    """uint8 raw pixels."""
    labels_N: Tensor  # noqa: N815  # a shape suffix
    """int64 class indices."""

    def __len__(self) -> int:
        return len(self.labels_N)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """An image set, divided."""

    card: DataCard
    splits: Mapping[str, Split]
    """`train`, `val` and `test`."""

    def __getitem__(self, split: str) -> Split:
        return self.splits[split]


def load_data(config: Params, cache_dir: Path, split_seed: int, device: str) -> Dataset:
    """Return every split as tensors on `device`, preparing the set first where that is not done.

    Raises:
        BadConfigError: the configuration or its data cannot be used.
        DataDamagedError: the cache holds other pixels or indices than were prepared.
    """
    prepare_data(config, cache_dir, split_seed)
    paths = cache_paths(ClassifierConfig.parse(config), cache_dir, split_seed)
    images_NCHW, labels_N = read_pixels(paths.pixels)
    indices, card = read_split(paths.split)
    if fingerprint(images_NCHW, labels_N, indices) != card.fingerprint:
        raise DataDamagedError(
            f"{paths.pixels} or {paths.split} is damaged: its content is not what was prepared;"
            " delete both"
        )
    splits = {
        name: Split(
            images_NCHW=images_NCHW[indices_N].to(device), labels_N=labels_N[indices_N].to(device)
        )
        for name, indices_N in indices.items()
    }
    return Dataset(card=card, splits=splits)
