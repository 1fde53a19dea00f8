"""The learning-rate range test: one short training whose rate rises until the loss breaks away.

Source: Smith 2017, "Cyclical Learning Rates for Training Neural Networks", section 3.3.
Differs: the rate rises exponentially, since its scale is not known beforehand, and what is read is
the loss of each batch rather than the accuracy.
"""

import math
from dataclasses import dataclass, field, fields, replace
from itertools import count
from statistics import fmean
from typing import Any, Final

from torch import Tensor

from hpo.clock import Clock
from hpo.domain.decision import CONTINUE, Decision
from hpo.domain.trial import Measurement
from hpo.training.epoch import train_epoch
from hpo.training.losses import Loss
from hpo.training.metrics import DivergedError
from hpo.training.schedules import Schedule
from hpo.training.task import BadConfigError, PublishedCheckpoint, TrialRequest
from hpo.training.tasks.assembly import assemble, load

SMOOTHING: Final = 9
"""Updates that a point of the smooth curve is the mean of, centred, so that nothing lags."""

BREAKAWAY: Final = 2.0
"""Times the loss at the start at which the test ends: nothing beyond is worth seeing."""

LEAST_FALL: Final = 0.03
"""Of the loss at the start: a smaller fall is noise."""

BEGINS: Final = 0.1
"""Share of the whole fall at which the loss is said to begin to fall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeTest:
    """What a range test measured, and the range that it suggests."""

    rates: tuple[float, ...]
    """Of each update, rising."""
    losses: tuple[float, ...]
    """Mean loss of each batch, before its update."""
    smooth: tuple[float, ...]
    """The same, smoothed."""
    low: float | None
    """Where the loss begins to fall; None where it never does."""
    high: float | None
    """Where it is lowest; beyond, it rises."""
    steepest: float | None
    """Where it falls fastest: a fair single choice."""
    remark: str
    """Why the test ended."""


class _EndedError(Exception):
    """Every rate was tried, or the loss broke away."""


@dataclass(frozen=True, kw_only=True)
class _HeardLoss(Loss):
    """A loss that writes down what it gives."""

    heard: list[tuple[Tensor, int]] = field(default_factory=list)

    def total(self, outputs_NK: Tensor, targets: Tensor) -> Tensor:
        """Return the sum over examples, and write it down with their number."""
        total = Loss.total(self, outputs_NK, targets)
        self.heard.append((total.detach(), len(targets)))
        return total


@dataclass(frozen=True, kw_only=True)
class _Ramp(Schedule):
    """A rate that rises from `lr_min` to `lr` in equal ratios; it looks at the loss on its way."""

    heard: list[tuple[Tensor, int]]
    losses: list[float] = field(default_factory=list)

    def learning_rate(self, step: int) -> float:
        """Take in the update before, and return the rate of this one."""
        self.take_in()
        if step >= self.num_steps:
            raise _EndedError("every rate was tried")
        if self.losses and self.losses[-1] > BREAKAWAY * self.losses[0]:
            raise _EndedError(f"the loss broke away at {self.losses[-1]:.3g}")
        return _rate(self.lr_min, self.lr, step, self.num_steps)

    def take_in(self) -> None:
        """Turn what was heard since the last call into the loss of one update."""
        if self.heard:
            total = sum(float(loss) for loss, _ in self.heard)
            self.losses.append(total / sum(size for _, size in self.heard))
            self.heard.clear()


def _rate(low: float, high: float, step: int, num_steps: int) -> float:
    share = step / max(1, num_steps - 1)
    return math.exp((1 - share) * math.log(low) + share * math.log(high))


def range_test(
    request: TrialRequest, clock: Clock, *, low: float, high: float, num_steps: int
) -> RangeTest:
    """Train with a rising rate and return the losses.

    Args:
        request: what to train; its schedule is replaced, all else is as configured.
        clock: measures the training.
        low: the first rate, above 0.
        high: the last rate, above `low`.
        num_steps: updates between them.

    Raises:
        BadConfigError: the configuration or its data cannot be used.
    """
    if not 0 < low < high:
        raise BadConfigError(f"the range {low:g} to {high:g} must rise from above 0")
    config = {**request.config, "devices_per_trial": 1, "compile": False, "ema_decay": 0.0}
    request = replace(request, config=config)
    dataset = load(request, request.device)
    trainee = assemble(request, dataset, is_restored=False)
    values: dict[str, Any] = {f.name: getattr(trainee.loss, f.name) for f in fields(Loss)}
    loss = _HeardLoss(**values)
    ramp = _Ramp(
        kind="constant",
        lr=high,
        lr_min=low,
        num_steps=num_steps,
        num_warmup_steps=0,
        heard=loss.heard,
    )
    trainee = replace(trainee, loss=loss, schedule=ramp)
    remark = ""
    try:
        for epoch in count(1):
            trainee.streams.begin_epoch(epoch, 0)
            train_epoch(trainee, epoch, _Silent(), clock)
    except _EndedError as end:
        remark = str(end)
    except DivergedError as error:
        loss.heard.clear()
        remark = str(error)
    rates = [_rate(low, high, step, num_steps) for step in range(len(ramp.losses))]
    return judged(rates, ramp.losses, remark)


def judged(rates: list[float], losses: list[float], remark: str) -> RangeTest:
    """Return a range test with the range that its curve suggests."""
    pairs = [pair for pair in zip(rates, losses, strict=True) if math.isfinite(pair[1])]
    rates, losses = [rate for rate, _ in pairs], [loss for _, loss in pairs]
    smooth = _smoothed(losses)
    low = high = steepest = None
    if len(smooth) > 2 * SMOOTHING:
        start = fmean(losses[: max(SMOOTHING, len(losses) // 10)])
        lowest = min(range(len(smooth)), key=smooth.__getitem__)
        fall = start - smooth[lowest]
        if fall > LEAST_FALL * abs(start):
            high = rates[lowest]
            before = [i for i in range(lowest) if smooth[i] >= start - BEGINS * fall]
            begin = max(before, default=0)
            low = rates[begin]
            reach = SMOOTHING // 2
            slopes = {
                i: smooth[min(i + reach, lowest)] - smooth[max(i - reach, 0)]
                for i in range(begin, lowest)
            }
            steepest = rates[min(slopes, key=slopes.__getitem__)] if slopes else low
    return RangeTest(
        rates=tuple(rates),
        losses=tuple(losses),
        smooth=tuple(smooth),
        low=low,
        high=high,
        steepest=steepest,
        remark=remark,
    )


def _smoothed(values: list[float]) -> list[float]:
    reach = SMOOTHING // 2
    return [fmean(values[max(0, i - reach) : i + reach + 1]) for i in range(len(values))]


class _Silent:
    """Hears nothing; fulfils `Reporter`."""

    def progress(self, epoch: int, fraction: float) -> None:
        """Drop it."""

    def report(self, measurement: Measurement) -> Decision:
        """Go on."""
        del measurement
        return CONTINUE

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        """Drop it."""
