"""How far a mean over a few seeds can be from the truth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

CONFIDENCE = 0.95
"""Of every interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A range that covers the true mean in 95 of 100 such studies, if values are near normal."""

    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the mean is on one side of zero for sure, as far as the interval goes."""
        return self.low > 0 or self.high < 0


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Return the two-sided t interval of the mean, or None for fewer than two values.

    Source: Student, The Probable Error of a Mean, Biometrika 6, 1908: mean +- t * s / sqrt(n) with
    n - 1 degrees of freedom.
    """
    if len(values) < 2:
        return None
    # Only the quantile is needed: scipy.stats would cost half a second more to import.
    from scipy.special import stdtrit  # noqa: PLC0415

    quantile = float(stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2))
    margin = quantile * stdev(values) / math.sqrt(len(values))
    mean = fmean(values)
    return Interval(low=mean - margin, high=mean + margin)
