"""Grid: every combination of the parameters' points."""

import itertools
from collections.abc import Iterator, Sequence

from hpo.domain.sweep import Sweep
from hpo.domain.trial import PlannedTrial, Trial
from hpo.search.plan import Candidate, opening
from hpo.search.table import Table


class GridSampler:
    """Plans every combination at once, the last parameter turning fastest.

    The baseline leads even where it is not on the grid; where it is, that combination is the
    baseline and runs once.
    """

    def __init__(self, sweep: Sweep) -> None:
        self._table = Table(sweep, _candidates(sweep))

    def propose(self, history: Sequence[Trial]) -> tuple[PlannedTrial, ...]:
        """Return the trials of the plan that are not in the history."""
        return self._table.missing(history)


def _candidates(sweep: Sweep) -> Iterator[Candidate]:
    yield from opening(sweep)
    names = sweep.space.names
    for values in itertools.product(*(parameter.points for parameter in sweep.space.parameters)):
        point = dict(zip(names, values, strict=True))
        yield Candidate(config={**sweep.baseline, **point})
