"""Decode an image set once, divide it once, and describe what came out.

Files under the cache folder: pixels and targets (`store`), shared by every study; and the indices
of one split together with its card. Whoever finds both reads a few hundred bytes.

Shapes: N images, C channels, H height, W width.
"""

import fcntl
import hashlib
import json
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
from hpo.training.config import ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.data.content import content_digest
from hpo.training.data.source import Source, TargetKind
from hpo.training.data.split import divide
from hpo.training.data.store import (
    BadImage,
    DataDamagedError,
    Store,
    facts_path,
    open_store,
    read_facts,
    write_store,
)
from hpo.training.origin.folder import list_folder
from hpo.training.origin.origin import SPLIT_NAMES, BadDataError, Origin, OriginKind
from hpo.training.task import BadConfigError
from tracking.checkpoints import weights_digest
from tracking.files import publish_bytes

# Readers import Pillow, sklearn and torchvision: a worker whose data is prepared needs none.
# ruff: noqa: PLC0415

_VERSION: Final = 2
"""Part of the file names: raised when their content changes meaning."""
_CARD_KEY: Final = "card"
_LEFT_OUT: Final = -2
"""The split code of an image that cannot be decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A decoded and divided set, on disk."""

    store_path: Path
    split_path: Path
    indices: dict[str, Tensor]
    """int64, sorted, into the store, by split."""
    card: DataCard


def prepare_data(
    config: Params, cache_dir: Path, split_seed: int, resplit_seed: int | None = None
) -> DataCard:
    """Make sure that an image set is decoded and divided, and return its card.

    Safe when several processes call it at once: one decodes, the others wait for it. A folder or
    an array file whose content changed is decoded again, and so is what a function gives, always.

    Args:
        config: the full configuration of the classifier.
        cache_dir: where decoded sets lie; created when it is missing.
        split_seed: draws the split.
        resplit_seed: redraws train and val where the configuration says `resplit: true`.

    Raises:
        BadConfigError: the configuration or its data cannot be used.
        DataDamagedError: a cache file cannot be read.
    """
    return prepare(config, cache_dir, split_seed, resplit_seed, is_fresh=True).card


def prepare(
    config: Params,
    cache_dir: Path,
    split_seed: int,
    resplit_seed: int | None = None,
    *,
    is_fresh: bool = False,
) -> Prepared:
    """Do what `prepare_data` does and return where it is; `is_fresh` calls a function again."""
    parsed = ClassifierConfig.parse(config)
    cache_dir.mkdir(parents=True, exist_ok=True)
    try:
        store_path = _decode(parsed, cache_dir, is_fresh=is_fresh)
    except BadDataError as error:
        raise BadConfigError(f"data {error}") from error
    bad = read_facts(store_path).bad_images if parsed.on_bad_image == "fail" else ()
    if bad:
        raise BadConfigError(_bad_images_text(bad))
    redraw = resplit_seed if parsed.resplit else None
    division = f"{split_seed}-{parsed.val_fraction:g}-{parsed.test_fraction:g}"
    division += "" if redraw is None else f"-r{redraw}"
    split_path = store_path.with_name(f"{store_path.stem}-split-{division}.safetensors")
    if not split_path.is_file():
        with _held(store_path.with_suffix(".lock")):
            if not split_path.is_file():
                _publish_split(parsed, store_path, split_path, split_seed, redraw)
    indices, card = read_split(split_path)
    return Prepared(store_path=store_path, split_path=split_path, indices=indices, card=card)


def read_split(path: Path) -> tuple[dict[str, Tensor], DataCard]:
    """Return the indices by split, and the card, of a cache file."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in SPLIT_NAMES}
            return tensors, DataCard.from_json(file.metadata()[_CARD_KEY])
    except (SafetensorError, OSError, ValueError) as error:
        raise DataDamagedError(f"{path} cannot be read ({error}); delete it") from error


def fingerprint(images_NCHW: Tensor, targets: Tensor, split: dict[str, Tensor]) -> str:
    """Return the sha256 over pixels, targets and the indices of the split."""
    return weights_digest({"images": images_NCHW, "labels": targets, **split})


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold a lock file; a holder that dies lets go."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _decode(config: ClassifierConfig, cache_dir: Path, *, is_fresh: bool) -> Path:
    """Return the path of the decoded set, decoding it where that is not done.

    Raises:
        BadDataError: it cannot be trained on.
    """
    origin = config.origin
    if origin.kind is OriginKind.FACTORY:
        return _decode_factory(config, cache_dir, is_fresh=is_fresh)
    path = cache_dir / f"{_stem(config, origin, cache_dir)}.safetensors"
    if not facts_path(path).is_file():
        with _held(path.with_suffix(".lock")):
            if not facts_path(path).is_file():
                write_store(path, open_source(config), config.image_size)
    return path


def _stem(config: ClassifierConfig, origin: Origin, cache_dir: Path) -> str:
    """Return the name of the decoded set: by content where that can be told from files."""
    size = f"-{config.image_size}px" if config.image_size else ""
    if origin.kind is OriginKind.CATALOG:
        place = "" if config.data == "digits" else config.data_root
        return f"{config.data}-{_short(place)}-v{_VERSION}{size}"
    memory = cache_dir / f"{origin.kind}-{_short(str(origin.path.absolute()))}-seen.json"
    if origin.kind is OriginKind.FOLDER:
        digest = content_digest(origin.path, list_folder(origin.path).files, memory)
    else:
        if not origin.path.is_file():
            raise BadDataError(f"names {origin.path}, which is no file here")
        digest = content_digest(origin.path.parent, [origin.path.name], memory)
    return f"{origin.kind}-{digest[:16]}-v{_VERSION}{size}"


def _decode_factory(config: ClassifierConfig, cache_dir: Path, *, is_fresh: bool) -> Path:
    """Call the function, or follow the note that the last call left."""
    stem = f"factory-{_short(f'{config.data} {config.image_size}')}-v{_VERSION}"
    note = cache_dir / f"{stem}-last.json"
    with _held(cache_dir / f"{stem}.lock"):
        if note.is_file() and not is_fresh:
            return cache_dir / str(json.loads(note.read_text()))
        new = cache_dir / f"{stem}-new.safetensors"
        write_store(new, open_source(config), config.image_size)
        store = open_store(new)
        content = {"images": store.images_NCHW, "labels": store.targets}
        digest = weights_digest({**content, "split": store.given_splits_N})
        path = cache_dir / f"{stem}-{digest[:16]}.safetensors"
        new.replace(path)
        facts_path(new).replace(facts_path(path))
        publish_bytes(note, json.dumps(path.name).encode())
    return path


def open_source(config: ClassifierConfig) -> Source:
    """Return the reader of what `data` names.

    Raises:
        BadConfigError: the files of a known set are missing or unreadable.
        BadDataError: a folder, file or function cannot be used.
    """
    origin = config.origin
    match origin.kind:
        case OriginKind.CATALOG:
            from hpo.training.data.sources.catalog import open_catalog

            return open_catalog(config)
        case OriginKind.FOLDER:
            from hpo.training.data.sources.folder import FolderSource

            return FolderSource(list_folder(origin.path))
        case OriginKind.ARRAYS:
            from hpo.training.data.sources.arrays import open_arrays

            return open_arrays(origin.path)
        case OriginKind.FACTORY:
            from hpo.training.data.sources.factory import open_factory

            return open_factory(origin.place)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _publish_split(
    config: ClassifierConfig,
    store_path: Path,
    split_path: Path,
    split_seed: int,
    resplit_seed: int | None,
) -> None:
    store = open_store(store_path)
    is_class = store.facts.target_kind == TargetKind.CLASS
    given_N = store.given_splits_N.clone()
    given_N[[bad.index for bad in store.facts.bad_images]] = _LEFT_OUT
    strata_N = store.targets.clone() if is_class else torch.zeros(len(given_N), dtype=torch.int64)
    fractions = (config.val_fraction, config.test_fraction)
    split = divide(strata_N, given_N, fractions, split_seed, resplit_seed)
    card = _describe(config, store, split)
    publish_bytes(split_path, safetensors.torch.save(split, {_CARD_KEY: card.to_json()}))


def _describe(config: ClassifierConfig, store: Store, split: dict[str, Tensor]) -> DataCard:
    """Return the card of a divided set.

    Raises:
        BadConfigError: a split is empty, or a class has no image in train.
    """
    for name, indices in split.items():
        if not len(indices):
            raise BadConfigError(f"the {name} split of {config.data} is empty: too few images")
    class_counts: tuple[int, ...] = ()
    if store.facts.target_kind == TargetKind.CLASS:
        num_classes = len(store.facts.class_labels)
        counts = store.targets[split["train"]].bincount(minlength=num_classes)
        class_counts = tuple(counts.tolist())
        if 0 in class_counts and config.origin.kind is not OriginKind.CATALOG:
            name = store.facts.class_labels[class_counts.index(0)]
            raise BadConfigError(
                f"the class {name} of {config.data} has no image in the training split; add"
                " images, or lower val_fraction or test_fraction"
            )
    images_NCHW = store.images_NCHW
    mean, std = _moments(images_NCHW, split["train"], store.facts.pixel_scale)
    _, *image_shape = images_NCHW.shape
    return DataCard(
        name=config.data,
        fingerprint=fingerprint(images_NCHW, store.targets, split),
        num_train=len(split["train"]),
        num_val=len(split["val"]),
        num_test=len(split["test"]),
        num_classes=len(store.facts.class_labels),
        class_labels=store.facts.class_labels,
        image_shape=(image_shape[0], image_shape[1], image_shape[2]),
        pixel_scale=store.facts.pixel_scale,
        mean=mean,
        std=std,
        target_kind=store.facts.target_kind,
        class_counts=class_counts,
        num_skipped=len(store.facts.bad_images),
        pixel_dtype="uint8" if images_NCHW.dtype == torch.uint8 else "float32",
    )


def _bad_images_text(bad: tuple[BadImage, ...]) -> str:
    named = ", ".join(f"{image.name} ({image.reason})" for image in bad[:5])
    more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
    return (
        f"{len(bad)} image(s) cannot be decoded: {named}{more}; mend or remove them, or write"
        " on_bad_image: skip"
    )


def _moments(
    images_NCHW: Tensor, indices: Tensor, pixel_scale: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation by channel; bytes are counted, which is exact."""
    if images_NCHW.dtype != torch.uint8:
        return _float_moments(images_NCHW, indices)
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


def _float_moments(
    images_NCHW: Tensor, indices: Tensor
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    num_pixels = len(indices) * images_NCHW.shape[2] * images_NCHW.shape[3]
    mean_C = torch.zeros(images_NCHW.shape[1], dtype=torch.float64)
    variance_C = torch.zeros_like(mean_C)
    parts = torch.split(indices, 1024)
    for part in parts:
        mean_C += images_NCHW[part].double().sum(dim=(0, 2, 3)) / num_pixels
    for part in parts:
        deviation = images_NCHW[part].double() - mean_C.reshape(1, -1, 1, 1)
        variance_C += (deviation**2).sum(dim=(0, 2, 3)) / num_pixels
    stds = [math.sqrt(value) or 1.0 for value in variance_C.tolist()]
    return tuple(mean_C.tolist()), tuple(stds)
