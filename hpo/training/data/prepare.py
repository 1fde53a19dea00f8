"""Decode an image set once, divide it once, and describe what came out.

Two files under the cache folder: the pixels and labels, shared by every study; and the indices of
one split together with its card. Whoever finds both reads a few hundred bytes.

Shapes: N images, C channels, H height, W width.
"""

import fcntl
import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hpo.domain.search_space import Params
from hpo.training.catalog import IMAGE_SETS, split_sizes
from hpo.training.config import ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.data.split import stratified_split
from hpo.training.task import BadConfigError
from tracking.checkpoints import weights_digest
from tracking.files import publish_bytes

_VERSION: Final = 1
"""Part of the file names: raised when their content changes meaning."""
_CARD_KEY: Final = "card"
_OWN_TEST_KEY: Final = "num_own_test"


class DataDamagedError(Exception):
    """A cache file is not what was prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePaths:
    """Where one prepared image set lies."""

    pixels: Path
    """`images` (uint8 NCHW) and `labels` (int64 N), in safetensors."""
    split: Path
    """Indices `train`, `val`, `test` (int64), in safetensors, with the card as metadata."""
    lock: Path
    """Held by the process that decodes."""


def cache_paths(config: ClassifierConfig, cache_dir: Path, split_seed: int) -> CachePaths:
    """Return where an image set and its split lie, prepared or not."""
    origin = "" if config.data == "digits" else config.data_root
    stem = f"{config.data}-{hashlib.sha256(origin.encode()).hexdigest()[:8]}-v{_VERSION}"
    division = f"{split_seed}-{config.val_fraction:g}-{config.test_fraction:g}"
    return CachePaths(
        pixels=cache_dir / f"{stem}.safetensors",
        split=cache_dir / f"{stem}-split-{division}.safetensors",
        lock=cache_dir / f"{stem}.lock",
    )


def prepare_data(config: Params, cache_dir: Path, split_seed: int) -> DataCard:
    """Make sure that an image set is decoded and divided, and return its card.

    Safe when several processes call it at once: one decodes, the others wait for it.

    Args:
        config: the full configuration of the classifier.
        cache_dir: where decoded sets lie; created when it is missing.
        split_seed: draws the split.

    Raises:
        BadConfigError: the configuration or its data cannot be used.
        DataDamagedError: a cache file cannot be read.
    """
    parsed = ClassifierConfig.parse(config)
    paths = cache_paths(parsed, cache_dir, split_seed)
    if not (paths.split.is_file() and paths.pixels.is_file()):
        cache_dir.mkdir(parents=True, exist_ok=True)
        with _held(paths.lock):
            if not paths.pixels.is_file():
                _publish_pixels(parsed, paths.pixels)
            if not paths.split.is_file():
                _publish_split(parsed, paths, split_seed)
    return read_split(paths.split)[1]


def read_pixels(path: Path) -> tuple[Tensor, Tensor]:
    """Return images_NCHW and labels_N of a cache file."""
    tensors, _ = _read(path)
    return tensors["images"], tensors["labels"]


def read_split(path: Path) -> tuple[dict[str, Tensor], DataCard]:
    """Return the indices by split, and the card, of a cache file."""
    tensors, metadata = _read(path)
    return tensors, DataCard.from_json(metadata[_CARD_KEY])


def fingerprint(images_NCHW: Tensor, labels_N: Tensor, split: dict[str, Tensor]) -> str:
    """Return the sha256 over pixels, labels and the indices of the split."""
    return weights_digest({"images": images_NCHW, "labels": labels_N, **split})


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold a lock file; a holder that dies lets go."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _publish_pixels(config: ClassifierConfig, path: Path) -> None:
    from hpo.training.data.decode import decode  # noqa: PLC0415  # only where data is not prepared

    raw = decode(config)
    data = safetensors.torch.save(
        {"images": raw.images_NCHW.contiguous(), "labels": raw.labels_N},
        {_OWN_TEST_KEY: str(raw.num_own_test or 0)},
    )
    publish_bytes(path, data)


def _publish_split(config: ClassifierConfig, paths: CachePaths, split_seed: int) -> None:
    tensors, metadata = _read(paths.pixels)
    images_NCHW, labels_N = tensors["images"], tensors["labels"]
    num_own_test = int(metadata[_OWN_TEST_KEY]) or None
    num_images = len(labels_N) - (num_own_test or 0)
    sizes = split_sizes(num_images, num_own_test, config.val_fraction, config.test_fraction)
    split = stratified_split(
        labels_N[:num_images], sizes, split_seed, is_test_drawn=num_own_test is None
    )
    for name, indices in split.items():
        if not len(indices):
            raise BadConfigError(f"the {name} split of {config.data} is empty: too few images")
    image_set = IMAGE_SETS[config.data]
    mean, std = _moments(images_NCHW, split["train"], image_set.pixel_scale)
    _, *image_shape = images_NCHW.shape
    card = DataCard(
        name=config.data,
        fingerprint=fingerprint(images_NCHW, labels_N, split),
        num_train=sizes.num_train,
        num_val=sizes.num_val,
        num_test=sizes.num_test,
        num_classes=len(image_set.class_labels),
        class_labels=image_set.class_labels,
        image_shape=(image_shape[0], image_shape[1], image_shape[2]),
        pixel_scale=image_set.pixel_scale,
        mean=mean,
        std=std,
    )
    publish_bytes(paths.split, safetensors.torch.save(split, {_CARD_KEY: card.to_json()}))


def _moments(
    images_NCHW: Tensor, indices: Tensor, pixel_scale: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation by channel, exact: pixels are counted, not summed."""
    values = torch.arange(256, dtype=torch.float64) / pixel_scale
    means: list[float] = []
    stds: list[float] = []
    for channel in range(images_NCHW.shape[1]):
        counts = torch.zeros(256, dtype=torch.int64)
        for start in range(0, len(indices), 4096):  # bounds memory: bincount widens its input
            pixels = images_NCHW[indices[start : start + 4096], channel].flatten()
            counts += torch.bincount(pixels, minlength=256)
        shares = counts.double() / counts.sum()
        mean = float((shares * values).sum())
        means.append(mean)
        stds.append(math.sqrt(float((shares * (values - mean) ** 2).sum())) or 1.0)
    return tuple(means), tuple(stds)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise DataDamagedError(f"{path} cannot be read ({error}); delete it") from error
