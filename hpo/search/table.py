"""A strategy whose whole table of configurations is known before the first trial."""

from collections.abc import Iterable, Sequence

from hpo.domain.sweep import Sweep
from hpo.domain.trial import PlannedTrial, Trial
from hpo.search.plan import Candidate, Plan


class Table:
    """Plans a list of candidates in its order, and later only what the history lacks."""

    def __init__(self, sweep: Sweep, candidates: Iterable[Candidate]) -> None:
        self._sweep = sweep
        different: dict[str, Candidate] = {}
        for candidate in candidates:
            different.setdefault(candidate.config_id, candidate)
            limit = sweep.budget.num_trials
            if limit is not None and len(different) * sweep.replicates >= limit:
                break  # the rest would never run, and may be millions
        self._candidates = tuple(different.values())

    def missing(self, history: Sequence[Trial]) -> tuple[PlannedTrial, ...]:
        """Return the trials that the history lacks, as far as the budget goes."""
        plan = Plan(self._sweep, history)
        trials: list[PlannedTrial] = []
        for candidate in self._candidates:
            trials += plan.add(candidate)
        return tuple(trials)
