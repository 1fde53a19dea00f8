"""Learning rates as pure functions of the update's index."""

import math
from dataclasses import dataclass
from typing import Final, Literal

ScheduleKind = Literal["constant", "step", "cosine", "one_cycle", "linear"]

_ONE_CYCLE_START: Final = 1 / 25
"""Of the rate, at the first update; torch's default."""
_ONE_CYCLE_END: Final = 1e-4
"""Of the first update's rate, at the last; torch's default, used where `lr_min` is 0."""
_ONE_CYCLE_RISE: Final = 0.3
"""Share of the updates in which the rate rises where no warm-up is asked for; torch's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A learning rate for every update of a trial.

    With W warm-up steps of T in all, the rate of step s, from 0, is lr (s + 1) / W while s < W,
    but for `one_cycle`. After that, with p = (s - W) / (T - W), from 0 to just below 1:

    `constant`: lr.
    `step`: lr times factor^floor(s / S), never below lr_min; S counts from the first update.
    `cosine`: lr_min + (lr - lr_min) (1 + cos(pi p)) / 2, which would reach lr_min at s = T.
    `linear`: lr + (lr_min - lr) p.
    `one_cycle`: along half a cosine from lr / 25 to lr in the first W steps (three tenths of all
    when W is 0), then along another down to lr_min (lr / 250 000 when that is 0) at the last.

    Source: Loshchilov and Hutter 2017, "SGDR", equation 5, one cycle; Goyal et al. 2017,
    "Accurate, Large Minibatch SGD", section 2.2, for the warm-up; Smith and Topin 2019,
    "Super-Convergence", in torch's form, for one_cycle.
    Differs: one_cycle leaves momentum alone.
    """

    kind: ScheduleKind
    lr: float
    """After warm-up, above 0."""
    num_steps: int
    """All updates of the trial."""
    num_warmup_steps: int
    """Updates of rise, 0 to below `num_steps`."""
    lr_min: float = 0.0
    """What the rate falls to, 0 to `lr`."""
    steps_per_fall: int = 1
    """S of `step`, at least 1."""
    fall_factor: float = 1.0
    """What `step` multiplies by."""

    def learning_rate(self, step: int) -> float:
        """Return the rate of one update.

        Args:
            step: index of the update, 0 to `num_steps - 1`.
        """
        if self.kind == "one_cycle":
            return self._one_cycle(step)
        if step < self.num_warmup_steps:
            return self.lr * (step + 1) / self.num_warmup_steps
        progress = (step - self.num_warmup_steps) / (self.num_steps - self.num_warmup_steps)
        match self.kind:
            case "constant":
                return self.lr
            case "step":
                return max(
                    self.lr_min, self.lr * self.fall_factor ** (step // self.steps_per_fall)
                )
            case "cosine":
                return _along_cosine(self.lr, self.lr_min, progress)
            case "linear":
                return self.lr + (self.lr_min - self.lr) * progress

    def _one_cycle(self, step: int) -> float:
        rise = (self.num_warmup_steps or _ONE_CYCLE_RISE * self.num_steps) - 1
        start = self.lr * _ONE_CYCLE_START
        end = self.lr_min or start * _ONE_CYCLE_END
        if step < rise:
            return _along_cosine(start, self.lr, step / rise)
        fall = self.num_steps - 1 - max(rise, 0)
        return _along_cosine(self.lr, end, (step - max(rise, 0)) / fall if fall > 0 else 0.0)


def _along_cosine(start: float, end: float, progress: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * progress)) / 2


def scaled_rate(rate: float, rule: str, batch_size: int, base_batch: int) -> float:
    """Return a learning rate, given for batches of `base_batch`, at another batch size.

    Source: Goyal et al. 2017, section 2.1, for `linear`; Krizhevsky 2014, "One weird trick",
    section 5, for `sqrt`, which keeps the variance of an update.
    """
    ratio = batch_size / base_batch
    return rate * {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}[rule]
