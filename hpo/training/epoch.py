"""One epoch of training: every update of the weights, and what is measured on the way.

Shapes: N examples, K classes.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from hpo.clock import Clock
from hpo.training.data.batch import Batch
from hpo.training.losses import Loss
from hpo.training.metrics import DivergedError, num_correct
from hpo.training.optimizers import set_learning_rate
from hpo.training.plan import Update, plan_epoch
from hpo.training.task import Reporter
from hpo.training.trainee import Trainee

PROGRESS_EVERY_S: Final = 1.0
"""Between two signs of life within an epoch; shorter epochs send none."""
_MOST_WAITING: Final = 1 << 16
"""Outputs that wait to be counted, a quarter of a megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedEpoch:
    """What was measured while training an epoch."""

    loss: float
    """Mean over the examples, each before its own update."""
    accuracy: float
    lr: float
    """Of the last update."""
    grad_norm: float
    """Mean over updates, before clipping; updates that fp16 skipped do not count."""
    grad_norm_max: float
    update_ratio: float
    """Of the last update: the norm of the change over the norm of the weights."""
    train_s: float
    data_s: float
    """Of `train_s`, waiting for examples and varying them."""
    num_examples: int


def train_epoch(trainee: Trainee, epoch: int, reporter: Reporter, clock: Clock) -> TrainedEpoch:
    """Update the weights once for each batch of a new random order.

    Raises:
        DivergedError: a loss or gradient is not finite; the update was not made.
    """
    started_s = clock.monotonic()
    trainee.model.train()
    ranks = trainee.ranks
    order_N = trainee.sampling.order(trainee.streams.data_order)
    plan = plan_epoch(order_N, trainee.batching, ranks.rank, ranks.num_ranks)
    run = _Run(trainee, trainee.train.batches(plan.bounds, plan.indices_N), clock)
    told_s, lr, num_seen = started_s, 0.0, 0
    for index, update in enumerate(plan.updates, 1):
        lr = trainee.schedule.learning_rate(trainee.progress.step)
        set_learning_rate(trainee.optimizer, lr)
        run.take(update, f"batch {index} of epoch {epoch}", is_last=index == len(plan.updates))
        trainee.progress.step += 1
        trainee.average.update(trainee.progress.step)
        num_seen += update.num_examples
        now_s = clock.monotonic()
        if now_s - told_s >= PROGRESS_EVERY_S:
            reporter.progress(epoch, num_seen / len(order_N))
            told_s = now_s
    trainee.progress.examples_seen += num_seen
    run.tally.count()
    loss_sum, correct_sum = run.tally.loss_sum, run.tally.correct_sum
    ranks.add_up(loss_sum, correct_sum)
    norms = run.grad_norms or [0.0]
    return TrainedEpoch(
        loss=float(loss_sum) / num_seen,
        accuracy=float(correct_sum) / num_seen,
        lr=lr,
        grad_norm=sum(norms) / len(norms),
        grad_norm_max=max(norms),
        update_ratio=run.update_ratio,
        train_s=clock.monotonic() - started_s,
        data_s=run.data_s,
        num_examples=num_seen,
    )


class _Tally:
    """Sums of losses and right answers, counted for many batches at one time.

    A handful of tiny operations after every batch is a fiftieth of a small model's update.
    """

    def __init__(self, loss: Loss, device: torch.device) -> None:
        self._loss = loss
        # float32 would lose the last examples of a large epoch
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        self.correct_sum = torch.zeros((), dtype=torch.float64, device=device)
        self._losses: list[Tensor] = []
        self._answers: list[tuple[Tensor, Tensor]] = []
        self._num_waiting = 0

    def add(self, loss: Tensor, outputs_NK: Tensor, targets: Tensor) -> None:
        """Take in a batch; bounds what waits to be counted."""
        self._losses.append(loss)
        self._answers.append((outputs_NK, targets))
        self._num_waiting += outputs_NK.numel()
        if self._num_waiting > _MOST_WAITING:
            self.count()

    def count(self) -> None:
        """Bring the sums up to date."""
        if not self._losses:
            return
        self.loss_sum += torch.stack(self._losses).sum(dtype=torch.float64)
        outputs, targets = zip(*self._answers, strict=True)
        self.correct_sum += num_correct(torch.cat(outputs), torch.cat(targets), self._loss)
        self._losses, self._answers, self._num_waiting = [], [], 0


class _Run:
    """The updates of one epoch."""

    def __init__(self, trainee: Trainee, batches: Iterator[Batch], clock: Clock) -> None:
        self._trainee = trainee
        self._batches = batches
        self._clock = clock
        self._weights = [w for w in trainee.model.parameters() if w.requires_grad]
        self.tally = _Tally(trainee.loss, self._weights[0].device)
        self.grad_norms: list[float] = []
        self.update_ratio = 0.0
        self.data_s = 0.0

    def take(self, update: Update, where: str, *, is_last: bool) -> None:
        """Make one update: the gradient of the mean loss over all of its examples."""
        trainee = self._trainee
        for weight in self._weights:  # what zero_grad does, without its hooks
            weight.grad = None
        loss_sum = self._add_gradients(update)
        trainee.precision.unscale(trainee.optimizer)
        norm = self._checked_norm(loss_sum, where)
        if trainee.clip_norm and norm > trainee.clip_norm:
            torch.nn.utils.clip_grads_with_norm_(
                self._weights, trainee.clip_norm, torch.tensor(norm)
            )
        before = [w.detach().clone() for w in self._weights] if is_last else []
        trainee.precision.step(trainee.optimizer)
        if before:
            self.update_ratio = _relative_change(self._weights, before)

    def _add_gradients(self, update: Update) -> Tensor:
        """Add up the gradients of every part; return the sum of the losses of this process."""
        trainee = self._trainee
        # Ranks average their gradients, so each counts as often as there are ranks.
        scale = update.weight * trainee.ranks.num_ranks / update.num_examples
        num_parts = len(update.part_sizes)
        losses: list[Tensor] = []
        for index in range(num_parts):
            started_s = self._clock.monotonic()
            batch = next(self._batches)
            images_NCHW, targets = trainee.augment(batch.images_NCHW, batch.labels_N)
            self.data_s += self._clock.monotonic() - started_s
            with trainee.ranks.unsynced(trainee.runner, is_last_part=index == num_parts - 1):
                with trainee.precision.autocast():
                    outputs_NK = trainee.runner(images_NCHW)
                loss = trainee.loss.total(outputs_NK, targets)
                trainee.precision.backward(loss * scale)
            losses.append(loss.detach())
            if update.weight:
                self.tally.add(losses[-1], outputs_NK.detach(), targets)
        return losses[0] if num_parts == 1 else torch.stack(losses).sum()

    def _checked_norm(self, loss: Tensor, where: str) -> float:
        """Return the norm of the whole gradient.

        Raises:
            DivergedError: the loss or the norm is not finite; the update must not be made.
        """
        # the arithmetic of torch.nn.utils.get_total_norm, without sorting by device each time
        grads = [w.grad for w in self._weights if w.grad is not None]
        norms = torch._foreach_norm(grads)  # noqa: SLF001
        norm_tensor = torch.linalg.vector_norm(torch.stack(norms))
        # One transfer for both: the sum is finite only when both are. An update that is made
        # because the check comes late cannot be taken back.
        if math.isfinite(float(loss + norm_tensor)):
            norm = float(norm_tensor)
            self.grad_norms.append(norm)
            return norm
        precision = self._trainee.precision
        if not loss.isfinite():
            raise DivergedError(f"train_loss is {float(loss):g} in {where}")
        if not precision.is_scaled or precision.is_broken:
            raise DivergedError(f"grad_norm is {float(norm_tensor):g} in {where}")
        return 0.0  # the scaled gradients overflowed; the step will be skipped


def _relative_change(weights: list[nn.Parameter], before: list[Tensor]) -> float:
    """Return the norm of the change over the norm of the weights before it."""
    changes = [w.detach() - old for w, old in zip(weights, before, strict=True)]
    change = torch.nn.utils.get_total_norm(changes)
    size = torch.nn.utils.get_total_norm(before)
    return float(change / size.clamp(min=sys.float_info.min))
