"""Where training and validation examples come from, and in which batches an epoch takes them.

Shapes: N examples, C channels, H height, W width, K classes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Examples(Protocol):
    """A split of a data set, held whole on the training device or read as it is needed.

    1. `fetch` yields one pair of images and labels for each size, in the order of the indices, on
       the training device. Images are raw pixels, never augmented.
    2. What it yields depends on the indices alone, not on who reads them or how many do.
    3. `labels` holds the label of every example by index, on any device: int64 classes of shape
       N, or float targets of shape N or NK.
    """

    @property
    def labels(self) -> Tensor:
        """Every label by index."""
        ...

    def __len__(self) -> int: ...

    def fetch(self, indices_N: Tensor, sizes: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield images_NCHW and labels of `sizes[0]` indices, of the next `sizes[1]`, and so on.

        Args:
            indices_N: int64, on the CPU; as many as the sizes add up to.
            sizes: of each piece, above 0.
        """
        ...


def batch_bounds(num_examples: int, batch_size: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each batch, in order, so that every example is in one.

    The last batch may be short. A rest of a single example joins the batch before it: batch
    norm would make a batch of its own meaningless.
    """
    start = 0
    while start < num_examples:
        end = min(start + batch_size, num_examples)
        if batch_size > 1 and num_examples - end == 1:
            end = num_examples
        yield start, end
        start = end


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The examples of one update of the weights."""

    num_examples: int
    """Of all parts on all devices: what the gradient is a mean over."""
    part_sizes: tuple[int, ...]
    """Examples that this process puts through the model at one time, one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """Which examples one process takes in an epoch, in which updates."""

    indices_N: Tensor  # noqa: N815  # a shape suffix
    """This process's examples in the order taken, int64, on the CPU."""
    updates: tuple[Update, ...]

    @property
    def sizes(self) -> list[int]:
        """The size of each part of each update, in order; they add up to the indices."""
        return [size for update in self.updates for size in update.part_sizes]


def plan_epoch(
    order_N: Tensor, batch_size: int, accumulate: int, rank: int = 0, num_ranks: int = 1
) -> EpochPlan:
    """Return what process `rank` of `num_ranks` does in an epoch.

    Every update takes the same examples however many processes and parts it is divided among:
    each process takes every `num_ranks`-th of them. Where an update has fewer examples than there
    are processes, the ones without any have an update of no parts.

    Args:
        order_N: indices in the order to train on, equal in every process.
        batch_size: examples in one update.
        accumulate: parts of a full batch; divides `batch_size`.
        rank: from 0.
        num_ranks: at least 1.
    """
    part_size = max(1, batch_size // accumulate // num_ranks)
    updates: list[Update] = []
    taken: list[Tensor] = []
    for start, end in batch_bounds(len(order_N), batch_size):
        own_N = order_N[start:end][rank::num_ranks]
        parts = [last - first for first, last in batch_bounds(len(own_N), part_size)]
        updates.append(Update(num_examples=end - start, part_sizes=tuple(parts)))
        taken.append(own_N)
    indices_N = order_N if num_ranks == 1 else torch.cat(taken)
    return EpochPlan(indices_N=indices_N, updates=tuple(updates))


def draw_order(labels: Tensor, generator: torch.Generator, *, is_balanced: bool) -> Tensor:
    """Return the indices of an epoch in a new random order.

    Args:
        labels: of every example.
        generator: on the CPU.
        is_balanced: draw as many with replacement, each class equally likely and each example of
            a class too; otherwise every index once.
    """
    if not is_balanced:
        return torch.randperm(len(labels), generator=generator)
    labels_N = labels.cpu()
    weights_N = 1 / torch.bincount(labels_N).double()[labels_N]
    return torch.multinomial(weights_N, len(labels_N), replacement=True, generator=generator)
