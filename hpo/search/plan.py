"""The plan of a study: which configurations it holds, whether one more fits, the next number.

Every sampler plans through here, so the rules are one: the baseline first, then the sweep's
`first` points, no configuration twice, all replicates of a configuration side by side, and the
trial budget cut at whole configurations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hpo.domain.search_space import Params
from hpo.domain.sweep import Sweep
from hpo.domain.trial import PlannedTrial, Role, Trial, config_id

SEARCH_ROLES = frozenset({Role.BASELINE, Role.POINT})
"""The roles of the trials that a sampler plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A configuration that may be planned."""

    config: Params
    """Complete."""
    role: Role = Role.POINT
    axis: str | None = None
    """As in `PlannedTrial`."""
    config_id: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "config_id", config_id(self.config))


def opening(sweep: Sweep) -> Iterator[Candidate]:
    """Yield what every strategy runs first: the baseline, then the sweep's `first` points.

    The baseline leads because every comparison needs it, and because a setup that cannot train
    its own control should say so before anything else is spent.
    """
    yield Candidate(config=dict(sweep.baseline), role=Role.BASELINE)
    for point in sweep.first:
        yield Candidate(config={**sweep.baseline, **point})


class Plan:
    """What a study has planned so far, and the rules for adding to it."""

    def __init__(self, sweep: Sweep, history: Sequence[Trial]) -> None:
        self._sweep = sweep
        self._history = history
        self._next_number = len(history)
        self._num_counted = sum(trial.plan.role is not Role.AUDIT for trial in history)
        self._replicates: dict[str, set[int]] = {}
        for trial in history:
            plan = trial.plan
            if plan.role in SEARCH_ROLES:
                self._replicates.setdefault(plan.config_id, set()).add(plan.replicate)

    @property
    def num_configurations(self) -> int:
        """How many different configurations are planned."""
        return len(self._replicates)

    @property
    def next_number(self) -> int:
        """The number of the next trial."""
        return self._next_number

    @property
    def is_full(self) -> bool:
        """Whether the trial budget has no room for one more configuration."""
        return not self._has_room(self._sweep.replicates)

    def holds(self, config: Params) -> bool:
        """Tell whether a configuration is planned, with any replicate."""
        return config_id(config) in self._replicates

    def unfinished(self) -> Iterator[Candidate]:
        """Yield the planned configurations that lack replicates, which a sweep may have raised."""
        for trial in self._history:
            plan = trial.plan
            have = self._replicates.get(plan.config_id, set())
            if plan.role in SEARCH_ROLES and len(have) < self._sweep.replicates:
                yield Candidate(config=plan.config, role=plan.role, axis=plan.axis)

    def add(self, candidate: Candidate) -> tuple[PlannedTrial, ...]:
        """Plan the replicates that a configuration lacks.

        Returns:
            The new trials; empty when all are planned already, or when they do not all fit into
            the budget.
        """
        have = self._replicates.get(candidate.config_id, set())
        missing = [index for index in range(self._sweep.replicates) if index not in have]
        if not missing or not self._has_room(len(missing)):
            return ()
        params = {
            name: candidate.config[name]
            for name in self._sweep.space.names
            if name in candidate.config
        }
        trials = tuple(
            PlannedTrial(
                number=self._next_number + offset,
                params=params,
                config=candidate.config,
                replicate=replicate,
                role=candidate.role,
                axis=candidate.axis,
            )
            for offset, replicate in enumerate(missing)
        )
        self._replicates[candidate.config_id] = have | set(missing)
        self._next_number += len(trials)
        self._num_counted += len(trials)
        return trials

    def _has_room(self, num_trials: int) -> bool:
        limit = self._sweep.budget.num_trials
        return limit is None or self._num_counted + num_trials <= limit
