"""Learning rates as pure functions of the update's index."""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A learning rate for every update of a trial.

    With W warm-up steps of T in all, the rate of step s, from 0, is lr (s + 1) / W while s < W.
    After that it is lr, or for `cosine` lr (1 + cos(pi (s - W) / (T - W))) / 2, which would reach
    0 at s = T.

    Source: Loshchilov and Hutter 2017, "SGDR", equation 5, one cycle; Goyal et al. 2017,
    "Accurate, Large Minibatch SGD", section 2.2, for the warm-up.
    """

    kind: Literal["constant", "cosine"]
    lr: float
    """After warm-up, above 0."""
    num_steps: int
    """All updates of the trial."""
    num_warmup_steps: int
    """Updates of linear rise, 0 to below `num_steps`."""

    def learning_rate(self, step: int) -> float:
        """Return the rate of one update.

        Args:
            step: index of the update, 0 to `num_steps - 1`.
        """
        if step < self.num_warmup_steps:
            return self.lr * (step + 1) / self.num_warmup_steps
        if self.kind == "constant":
            return self.lr
        progress = (step - self.num_warmup_steps) / (self.num_steps - self.num_warmup_steps)
        return self.lr * (1 + math.cos(math.pi * progress)) / 2
