"""In which updates an epoch takes the training examples, on one device or several.

Shapes: N examples.
"""

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from hpo.training.data.batch import batch_bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """How many examples make an update."""

    size: int
    """Examples in one update."""
    accumulate: int = 1
    """Parts of a full update that go through the model one after the other; divides `size`."""
    drop_last: bool = False
    """Whether an epoch leaves out its last update where that is not full."""

    def bounds(self, num_examples: int) -> list[tuple[int, int]]:
        """Return start and end of each update within the order of an epoch."""
        return list(batch_bounds(num_examples, self.size, drop_last=self.drop_last))


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The examples of one update of the weights."""

    num_examples: int
    """Of all parts on all devices: what the gradient is a mean over."""
    part_sizes: tuple[int, ...]
    """Examples that this process puts through the model at one time, one after the other."""
    weight: int = 1
    """0 where a process has none of the update's examples and runs one of them along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """Which examples one process takes in an epoch, in which updates."""

    indices_N: Tensor  # noqa: N815  # a shape suffix
    """This process's examples in the order taken, int64, on the CPU."""
    updates: tuple[Update, ...]

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """Start and end of each part of each update, in order, within the indices."""
        sizes = [size for update in self.updates for size in update.part_sizes]
        ends = list(itertools.accumulate(sizes))
        return list(zip([0, *ends[:-1]], ends, strict=True))


def plan_epoch(
    order_N: Tensor, batching: Batching, rank: int = 0, num_ranks: int = 1
) -> EpochPlan:
    """Return what process `rank` of `num_ranks` does in an epoch.

    Every update takes the same examples however many processes and parts it is divided among:
    each process takes every `num_ranks`-th of them. Where an update has fewer examples than there
    are processes, the ones without any take one along that counts for nothing.

    Args:
        order_N: indices in the order to train on, equal in every process.
        batching: how many examples are in an update, and in how many parts.
        rank: from 0.
        num_ranks: at least 1.
    """
    part_size = max(1, batching.size // batching.accumulate // num_ranks)
    updates: list[Update] = []
    taken: list[Tensor] = []
    for start, end in batching.bounds(len(order_N)):
        own_N = order_N[start:end][rank::num_ranks]
        parts = [last - first for first, last in batch_bounds(len(own_N), part_size)]
        if not parts:
            own_N = order_N[start : start + 1]
        updates.append(
            Update(
                num_examples=end - start,
                part_sizes=tuple(parts) or (1,),
                weight=1 if parts else 0,
            )
        )
        taken.append(own_N)
    indices_N = order_N if num_ranks == 1 else torch.cat(taken)
    return EpochPlan(indices_N=indices_N, updates=tuple(updates))
