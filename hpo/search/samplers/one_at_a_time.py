"""One variable at a time: the baseline, and every other value of every parameter alone."""

from collections.abc import Iterator, Sequence

from hpo.domain.search_space import Params, same_value
from hpo.domain.sweep import Sweep
from hpo.domain.trial import PlannedTrial, Role, Trial
from hpo.search.plan import Candidate, opening
from hpo.search.table import Table


class OneAtATimeSampler:
    """Plans the whole study at once: the baseline, the `first` points, then axis by axis.

    The order makes early results useful and a cut study conclusive. The baseline leads, since
    every effect is a difference to it. Parameters follow in the order written, so the one that
    the author named first is known first. The replicates of a configuration are neighbours, so
    that whatever has ended when the time is up can be compared seed by seed, rather than many
    values with one seed each. A value equal to the baseline's is the baseline and runs once.
    """

    def __init__(self, sweep: Sweep) -> None:
        self._table = Table(sweep, _candidates(sweep))

    def propose(self, history: Sequence[Trial]) -> tuple[PlannedTrial, ...]:
        """Return the trials of the plan that are not in the history."""
        return self._table.missing(history)


def _candidates(sweep: Sweep) -> Iterator[Candidate]:
    for candidate in opening(sweep):
        yield Candidate(
            config=candidate.config,
            role=candidate.role,
            axis=None if candidate.role is Role.BASELINE else _axis(sweep, candidate.config),
        )
    for parameter in sweep.space.parameters:
        for value in parameter.points:
            yield Candidate(config={**sweep.baseline, parameter.name: value}, axis=parameter.name)


def _axis(sweep: Sweep, config: Params) -> str | None:
    """Return the only parameter in which a configuration differs from the baseline, or None."""
    changed = [
        name
        for name, value in config.items()
        if name not in sweep.baseline or not same_value(value, sweep.baseline[name])
    ]
    return changed[0] if len(changed) == 1 and changed[0] in sweep.space.names else None
