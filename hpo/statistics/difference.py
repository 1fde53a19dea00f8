"""How much better one configuration is than another, seed by seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from hpo.statistics.interval import Interval, mean_interval
from hpo.statistics.summary import ConfigurationSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """One configuration minus another over the replicates that both completed.

    Replicate k has the same seeds in both, so what a seed does to both cancels.
    """

    by_replicate: Mapping[int, float]
    """In the objective's own unit, not turned round for `maximize`; at least one."""
    mean: float
    interval: Interval | None
    """Of the mean, 95 %; None with one replicate."""
    num_better: int
    """In how many replicates the first configuration is strictly better."""

    @property
    def num_replicates(self) -> int:
        """How many pairs there are."""
        return len(self.by_replicate)

    @property
    def is_distinguishable(self) -> bool:
        """Whether the interval of the difference excludes zero."""
        return self.interval is not None and self.interval.excludes_zero


def paired_difference(
    summary: ConfigurationSummary, other: ConfigurationSummary
) -> PairedDifference | None:
    """Return `summary` minus `other`, or None when no replicate is COMPLETE in both."""
    differences = {
        replicate: value - other.values[replicate]
        for replicate, value in summary.values.items()
        if replicate in other.values
    }
    if not differences:
        return None
    values = list(differences.values())
    return PairedDifference(
        by_replicate=differences,
        mean=fmean(values),
        interval=mean_interval(values),
        num_better=sum(summary.objective.loss(value) < 0 for value in values),
    )
