"""Which metric counts, in which direction, at which epoch."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from hpo.domain.trial import Measurement


class Direction(StrEnum):
    """Whether small or large values are good."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


class At(StrEnum):
    """Which epoch's value is the trial's value."""

    BEST = "best"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A metric to improve."""

    metric: str
    """A metric that every report carries, such as `val_loss`."""
    direction: Direction = Direction.MINIMIZE
    at: At = At.BEST
    """The epoch whose value counts, and whose checkpoint is kept as best."""

    def __post_init__(self) -> None:
        # Text from JSON compares equal to a member but is none, and would pass for the other one.
        object.__setattr__(self, "direction", Direction(self.direction))
        object.__setattr__(self, "at", At(self.at))

    def loss(self, value: float) -> float:
        """Return `value` so that smaller is better."""
        return value if self.direction is Direction.MINIMIZE else -value

    def is_better(self, value: float, than: float) -> bool:
        """Tell whether `value` improves on `than`."""
        return self.loss(value) < self.loss(than)

    def select(self, measurements: Iterable[Measurement]) -> Measurement | None:
        """Return the measurement whose value is the trial's value, or None without any.

        The earliest of equal bests wins. Non-finite values are never selected.
        """
        selected: Measurement | None = None
        for measurement in measurements:
            value = measurement.metrics.get(self.metric, math.nan)
            if not math.isfinite(value):
                continue
            if (
                selected is None
                or self.at is At.LAST
                or self.is_better(value, selected.metrics[self.metric])
            ):
                selected = measurement
        return selected
