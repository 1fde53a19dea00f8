"""Which trial next. The promises of a sampler, and the one that a sweep asks for."""

from collections.abc import Sequence
from typing import Protocol

from hpo.domain.sweep import Grid, OneAtATime, RandomSearch, Sweep, Tpe
from hpo.domain.trial import PlannedTrial, Trial


class Sampler(Protocol):
    """Proposes the next trials of one sweep.

    1. `propose` is a function of the sweep and the history alone: no clock, no global random
       state, nothing remembered that could change an answer. A study that was cut at any point and
       continues is proposed what it would have been proposed without the cut.
    2. A proposal is whole configurations: every replicate that a configuration lacks, numbered
       without gaps from `len(history)`. The caller records it as WAITING before it runs any of it.
    3. The baseline comes first, under its own role, and once; then the sweep's `first` points.
    4. No configuration is proposed twice, whatever became of it.
    5. The study never holds more trials than `budget.num_trials`; a configuration that does not
       fit with all its replicates is not begun.
    6. An empty proposal means that nothing is left: the budget or the space is spent.
    7. A strategy that knows its whole table beforehand proposes all of it at once, and afterwards
       only what a longer sweep adds; the others propose one configuration at a time.
    """

    def propose(self, history: Sequence[Trial]) -> tuple[PlannedTrial, ...]:
        """Return the next trials to record and run.

        Args:
            history: every trial of the study by number, those that wait or run included.
        """
        ...


def make_sampler(sweep: Sweep) -> Sampler:
    """Return the sampler of a sweep's strategy. Only TPE costs the import of Optuna, on use."""
    # Each strategy is imported on use, so that a plan is shown without loading the others.
    match sweep.strategy:
        case OneAtATime():
            from hpo.search.samplers.one_at_a_time import OneAtATimeSampler  # noqa: PLC0415

            return OneAtATimeSampler(sweep)
        case Grid():
            from hpo.search.samplers.grid import GridSampler  # noqa: PLC0415

            return GridSampler(sweep)
        case RandomSearch():
            from hpo.search.samplers.random import RandomSampler  # noqa: PLC0415

            return RandomSampler(sweep)
        case Tpe():
            from hpo.search.samplers.tpe import TpeSampler  # noqa: PLC0415

            return TpeSampler(sweep, sweep.strategy)
