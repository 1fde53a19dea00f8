"""What the trials of each configuration say together, and which configuration is best."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from hpo.domain.objective import Objective
from hpo.domain.search_space import Params
from hpo.domain.trial import Role, Trial, TrialState
from hpo.statistics.interval import Interval, mean_interval

COMPARED_ROLES = frozenset({Role.BASELINE, Role.POINT, Role.NUISANCE, Role.ADOPT})
"""Confirmations and audits repeat a configuration on other terms and are read apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationSummary:
    """One configuration over its replicates."""

    config_id: str
    params: Params
    """Values of the varied parameters."""
    config: Params
    """Complete."""
    axis: str | None
    """The one parameter that differs from the baseline; None in joint searches."""
    role: Role
    objective: Objective
    """What the values are values of."""
    trials: tuple[Trial, ...]
    """By number, at least one."""
    values: Mapping[int, float]
    """Of the COMPLETE trials, by replicate, in order."""
    mean: float | None
    """Of `values`; None without any."""
    sd: float | None
    """Standard deviation of the sample `values`; None for fewer than two."""
    interval: Interval | None
    """Of the mean, 95 %; None for fewer than two values."""
    num_complete: int
    num_pruned: int
    num_failed: int

    @property
    def is_comparable(self) -> bool:
        """Whether every replicate is COMPLETE, all at the same number of epochs."""
        return (
            self.num_complete == len(self.trials) == len(self.values)
            and len({trial.num_epochs for trial in self.trials}) == 1
        )

    @property
    def is_baseline(self) -> bool:
        """Whether this is the control."""
        return self.role is Role.BASELINE


def summarise(trials: Iterable[Trial], objective: Objective) -> list[ConfigurationSummary]:
    """Return one summary for each configuration, in the order of their first trials.

    Args:
        trials: of one study; confirmations and audits among them are left out.
        objective: of the study.
    """
    groups: dict[str, list[Trial]] = {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        if trial.plan.role in COMPARED_ROLES:
            groups.setdefault(trial.plan.config_id, []).append(trial)
    return [_summary(group, objective) for group in groups.values()]


def _summary(trials: Sequence[Trial], objective: Objective) -> ConfigurationSummary:
    plan = trials[0].plan
    by_replicate = {
        trial.plan.replicate: trial.value
        for trial in sorted(trials, key=lambda trial: trial.plan.replicate)
        if trial.state is TrialState.COMPLETE and trial.value is not None
    }
    values = list(by_replicate.values())
    states = [trial.state for trial in trials]
    return ConfigurationSummary(
        config_id=plan.config_id,
        params=plan.params,
        config=plan.config,
        axis=plan.axis,
        role=plan.role,
        objective=objective,
        trials=tuple(trials),
        values=by_replicate,
        mean=fmean(values) if values else None,
        sd=stdev(values) if len(values) > 1 else None,
        interval=mean_interval(values),
        num_complete=states.count(TrialState.COMPLETE),
        num_pruned=states.count(TrialState.PRUNED),
        num_failed=states.count(TrialState.FAIL),
    )


def ranking(summaries: Iterable[ConfigurationSummary]) -> list[ConfigurationSummary]:
    """Return the comparable configurations, best mean first.

    Of equal means the baseline comes first, then the one that was planned first.
    """
    summaries = list(summaries)
    # A mean over fewer seeds is a luckier draw: after an extension only whole ones compete.
    num_seeds = max((len(summary.trials) for summary in summaries), default=0)
    whole = (s for s in summaries if s.is_comparable and len(s.trials) == num_seeds)
    return sorted(whole, key=_rank)


def _rank(summary: ConfigurationSummary) -> tuple[float, bool, int]:
    loss = math.inf if summary.mean is None else summary.objective.loss(summary.mean)
    return loss, not summary.is_baseline, summary.trials[0].number


def winner(summaries: Iterable[ConfigurationSummary]) -> ConfigurationSummary | None:
    """Return the comparable configuration with the best mean, or None without any."""
    return next(iter(ranking(summaries)), None)


def runner_up(summaries: Iterable[ConfigurationSummary]) -> ConfigurationSummary | None:
    """Return the second of the ranking, or None."""
    return next(iter(ranking(summaries)[1:]), None)


def baseline_of(summaries: Iterable[ConfigurationSummary]) -> ConfigurationSummary | None:
    """Return the control, or None when it was not planned."""
    return next((summary for summary in summaries if summary.is_baseline), None)


def median_replicate(summary: ConfigurationSummary) -> Trial | None:
    """Return the COMPLETE trial that stands for its configuration: the one of median value.

    Of an even number the lower middle one, of equal values the earliest. None without any.
    """
    complete = sorted(
        (trial.value, trial.number, trial)
        for trial in summary.trials
        if trial.state is TrialState.COMPLETE and trial.value is not None
    )
    return complete[(len(complete) - 1) // 2][-1] if complete else None
