"""An image set, divided and ready to be trained on: resident or streaming, whichever fits.

Shapes: N images, C channels, H height, W width.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import psutil
import torch

from hpo.domain.search_space import Params
from hpo.training.config import ClassifierConfig
from hpo.training.data.batch import Examples
from hpo.training.data.card import DataCard
from hpo.training.data.prepare import Prepared, fingerprint, prepare
from hpo.training.data.resident import Split
from hpo.training.data.source import TargetKind
from hpo.training.data.store import DataDamagedError, Store, StoreReader, open_store
from hpo.training.data.streaming import LoaderSettings, Stream, StreamedSplit, measured
from hpo.training.task import BadConfigError

_RESIDENT_SHARE: Final = 0.25
"""Of the device's free memory that a resident set may take: several trials may share it, and
weights and activations come on top."""

_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108  # where torch hands batches over on Linux


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """An image set, divided."""

    card: DataCard
    splits: Mapping[str, Examples]
    """`train`, `val` and `test`."""
    remarks: tuple[str, ...] = ()
    """Sentences for the trial's log: how the images are held and why, what was left out."""

    def __getitem__(self, split: str) -> Examples:
        return self.splits[split]


def load_data(
    config: Params,
    cache_dir: Path,
    split_seed: int,
    device: str,
    resplit_seed: int | None = None,
) -> Dataset:
    """Return every split, preparing the set first where that is not done.

    Small sets are copied to `device` whole; larger ones are read batch by batch. Both give equal
    batches.

    Args:
        config: the full configuration of the classifier.
        cache_dir: where decoded sets lie.
        split_seed: draws the split.
        device: where batches are wanted.
        resplit_seed: redraws train and val where the configuration says `resplit: true`.

    Raises:
        BadConfigError: the configuration or its data cannot be used.
        DataDamagedError: the cache holds other pixels or indices than were prepared.
    """
    parsed = ClassifierConfig.parse(config)
    prepared = prepare(config, cache_dir, split_seed, resplit_seed)
    card = prepared.card
    if parsed.sampling == "balanced" and card.target_kind != TargetKind.CLASS:
        raise BadConfigError(
            f"sampling is balanced, which needs classes; {parsed.data} has {card.target_kind}"
            " targets, write sampling: uniform"
        )
    if parsed.batch_size > card.num_train:
        raise BadConfigError(
            f"batch_size is {parsed.batch_size}, must be at most {card.num_train}, the images in"
            f" the training split of {parsed.data}"
        )
    store = open_store(prepared.store_path)
    is_resident, remark = _placed(parsed, card, device)
    remarks = [remark]
    if is_resident:
        splits = _resident(prepared, store, device)
    else:
        splits, sentence = _streamed(parsed, prepared, store, device)
        remarks.append(sentence)
    if card.num_skipped:
        named = ", ".join(bad.name for bad in store.facts.bad_images[:5])
        remarks.append(f"{card.num_skipped} image(s) cannot be decoded and are left out: {named}")
    return Dataset(card=card, splits=splits, remarks=tuple(remarks))


def _placed(config: ClassifierConfig, card: DataCard, device: str) -> tuple[bool, str]:
    """Return whether the images are held on the device, and a sentence that says why."""
    channels, height, width = card.image_shape
    num_images = card.num_train + card.num_val + card.num_test
    pixel_bytes = 1 if card.pixel_dtype == "uint8" else 4
    num_bytes = num_images * channels * height * width * pixel_bytes
    free = _free_bytes(device)
    figures = f"{num_bytes / 1e6:.3g} MB of images, {free / 1e6:.3g} MB free on {device}"
    if config.loader_mode != "auto":
        return config.loader_mode == "resident", f"{config.loader_mode}, as asked: {figures}"
    is_resident = num_bytes <= _RESIDENT_SHARE * free
    return is_resident, f"{'resident' if is_resident else 'streaming'}: {figures}"


def _free_bytes(device: str) -> int:
    if torch.device(device).type == "cuda":
        free_bytes, _ = torch.cuda.mem_get_info(device)
        return int(free_bytes)
    return int(psutil.virtual_memory().available)


def _resident(prepared: Prepared, store: Store, device: str) -> dict[str, Examples]:
    """Return the splits as tensors on the device.

    Raises:
        DataDamagedError: the cache holds other pixels or indices than were prepared.
    """
    if fingerprint(store.images_NCHW, store.targets, prepared.indices) != (
        prepared.card.fingerprint
    ):
        raise DataDamagedError(
            f"{prepared.store_path} or {prepared.split_path} is damaged: its content is not what"
            " was prepared; delete both"
        )
    return {
        name: Split(
            images_NCHW=store.images_NCHW[indices_N].to(device),
            labels_N=store.targets[indices_N].to(device),
        )
        for name, indices_N in prepared.indices.items()
    }


def _streamed(
    config: ClassifierConfig, prepared: Prepared, store: Store, device: str
) -> tuple[dict[str, Examples], str]:
    """Return the splits, read batch by batch, and a sentence about the loader.

    Pixels are not compared with the fingerprint, which would read all of them in every trial.
    """
    read = StoreReader(prepared.store_path)
    settings = LoaderSettings.of(config, device)
    sentence = f"{settings.workers} worker(s), as asked"
    if settings.workers < 0:
        order = prepared.indices["train"].tolist()
        settings, sentence = measured(read, settings, order, config.batch_size)
    shared = settings.workers * settings.prefetch * config.batch_size * read(0).nbytes
    if _SHARED_MEMORY.is_dir() and shared > shutil.disk_usage(_SHARED_MEMORY).free / 2:
        settings = replace(settings, workers=0)
        sentence = (
            f"0 workers: what they read ahead takes {shared / 1e6:.3g} MB of {_SHARED_MEMORY},"
            " which has less than twice that; a container gets more with --shm-size"
        )
    stream = Stream(read, settings, 0)
    splits: dict[str, Examples] = {
        name: StreamedSplit(
            stream=stream,
            indices_N=indices_N,
            labels_N=store.targets[indices_N].to(device),
            non_blocking=settings.non_blocking and settings.pin_memory,
        )
        for name, indices_N in prepared.indices.items()
    }
    return splits, sentence
