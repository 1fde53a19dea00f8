"""Splits that are read from disk batch by batch, ahead of the training, by a DataLoader.

One loader serves every split of a set, so that its workers are started once. Workers only copy
pixels: they draw nothing, so that their number changes no result; they are seeded all the same,
for a reader that would draw.

Shapes: N images, K target columns, C channels, H height, W width.
"""

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from hpo.training.config import ClassifierConfig
from hpo.training.data.batch import Batch, Bounds
from hpo.training.determinism import seeded_generator

_TRIED_BATCHES: Final = 24
"""Read in each measurement: some tens of milliseconds for small images."""

_MOST_WORKERS: Final = 8
"""Tried automatically; beyond it a disk or the hand-over is the limit."""

Read = Callable[[int], Tensor]
"""Returns image_CHW by its index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderSettings:
    """Every setting of the loader."""

    workers: int
    """Processes; 0 reads in the training's own; -1: to be measured."""
    prefetch: int
    """Batches ahead of each worker."""
    pin_memory: bool
    persistent_workers: bool
    non_blocking: bool

    @classmethod
    def of(cls, config: ClassifierConfig, device: str) -> "LoaderSettings":
        """Return what a configuration asks for on a device; page-locked memory serves GPUs."""
        return cls(
            workers=config.loader_workers,
            prefetch=config.loader_prefetch,
            pin_memory=config.loader_pin_memory and torch.device(device).type == "cuda",
            persistent_workers=config.loader_persistent_workers,
            non_blocking=config.loader_non_blocking,
        )


class _Images(Dataset[Tensor]):
    """Reads whole batches; a worker gets a copy of it."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def __getitem__(self, index: int) -> Tensor:
        return self._read(index)

    def __getitems__(self, indices: Sequence[int]) -> Tensor:
        return torch.stack([self._read(index) for index in indices])


class _Plan(Sampler[list[int]]):
    """The batches of the next pass, which change under a loader that stays."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


def _as_it_is(batch: Any) -> Any:
    return batch


class Stream:
    """Images by index, read ahead in batches."""

    def __init__(self, read: Read, settings: LoaderSettings, seed: int) -> None:
        """Prepare the loader; workers start with the first pass.

        Args:
            read: safe in several processes; maps files rather than holding them.
            settings: with a number of workers, 0 or more.
            seed: of the workers' own random states, which no built-in reader uses.
        """
        self._plan = _Plan()
        has_workers = settings.workers > 0
        self._loader: DataLoader[Tensor] = DataLoader(
            _Images(read),
            batch_sampler=self._plan,
            num_workers=settings.workers,
            collate_fn=_as_it_is,
            pin_memory=settings.pin_memory,
            prefetch_factor=settings.prefetch if has_workers else None,
            persistent_workers=has_workers and settings.persistent_workers,
            generator=seeded_generator(seed),
        )

    def read(self, batches: list[list[int]]) -> Iterator[Tensor]:
        """Yield images_NCHW of each batch in order, on the CPU."""
        self._plan.batches = batches
        with warnings.catch_warnings():
            # Workers run no thread pool of torch, whose locks they would inherit.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded")
            iterator: Iterator[Any] = iter(self._loader)
        yield from iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedSplit:
    """One part of an image set, read when it is needed; fulfils `Examples`."""

    stream: Stream
    indices_N: Tensor  # noqa: N815  # a shape suffix
    """int64, of the split's images among all, on the CPU."""
    labels_N: Tensor  # noqa: N815  # a shape suffix
    """On the training device."""
    non_blocking: bool

    def __len__(self) -> int:
        return len(self.labels_N)

    @property
    def images_NCHW(self) -> Tensor:  # noqa: N802  # a shape suffix
        """All images, on the training device; costs their memory."""
        (images_NCHW,) = self.stream.read([self.indices_N.tolist()])
        return images_NCHW.to(self.labels_N.device)

    def batches(self, bounds: Bounds, order_N: Tensor | None = None) -> Iterator[Batch]:
        """Yield a batch for each start and end, reading ahead."""
        order_N = torch.arange(len(self)) if order_N is None else order_N.cpu()
        labels_N = self.labels_N.index_select(0, order_N.to(self.labels_N.device))
        indices = self.indices_N[order_N].tolist()
        images = self.stream.read([indices[start:end] for start, end in bounds])
        device = self.labels_N.device
        for (start, end), images_NCHW in zip(bounds, images, strict=True):
            yield Batch(
                images_NCHW=images_NCHW.to(device, non_blocking=self.non_blocking),
                labels_N=labels_N[start:end],
            )


def measured(
    read: Read, settings: LoaderSettings, order: Sequence[int], batch_size: int
) -> tuple[LoaderSettings, str]:
    """Choose the number of workers by reading some batches with none and with several.

    Args:
        read: returns an image.
        settings: whose number of workers is open.
        order: indices in the order of an epoch.
        batch_size: images in one batch.

    Returns:
        The settings, and a sentence with what was measured.
    """
    bounds = range(0, min(len(order), _TRIED_BATCHES * batch_size), batch_size)
    batches = [list(order[start : start + batch_size]) for start in bounds]
    # What this trial may use: its threads, which the executor chose for its share of the machine.
    several = max(1, min(torch.get_num_threads(), os.cpu_count() or 1, _MOST_WORKERS))
    seconds = {
        workers: _seconds(read, replace(settings, workers=workers), batches)
        for workers in (0, several)
    }
    workers = min(seconds, key=lambda count: seconds[count])
    shown = ", ".join(f"{1e3 * s:.2g} ms with {w}" for w, s in seconds.items())
    return replace(settings, workers=workers), f"{workers} worker(s): a batch took {shown}"


def _seconds(read: Read, settings: LoaderSettings, batches: list[list[int]]) -> float:
    """Return seconds a batch once workers run."""
    stream = Stream(read, replace(settings, persistent_workers=False, pin_memory=False), 0)
    images = stream.read(batches)
    next(images)
    started = time.perf_counter()
    num_read = sum(1 for _ in images)
    return (time.perf_counter() - started) / max(num_read, 1)
