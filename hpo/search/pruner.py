"""Which trial to stop. The promises of a pruner, and the one that a sweep asks for."""

from collections.abc import Sequence
from typing import Protocol

from hpo.domain.decision import Decision
from hpo.domain.objective import Objective
from hpo.domain.sweep import Hyperband, MedianPruning, NoPruning, SuccessiveHalving, Sweep
from hpo.domain.trial import Trial
from hpo.search.pruners.hyperband import HyperbandPruner
from hpo.search.pruners.median import MedianPruner
from hpo.search.pruners.none import NoPruner
from hpo.search.pruners.successive_halving import SuccessiveHalvingPruner


class Pruner(Protocol):
    """Judges one trial after each of its epochs.

    1. `judge` is a function of its arguments: the same trial and history get the same decision.
    2. The decision is to continue or to prune; a prune has a reason with the numbers it rests on.
    3. Only points of the search are pruned: never the baseline, a confirmation or an audit, whose
       worth is that they were trained to the end.
    4. A trial is never pruned at its last epoch: it has been paid for.
    5. Trials are compared at the same epoch only, never with one that did not get so far.
    6. A configuration is judged, not a seed: where several replicates reached the epoch, their
       mean stands for the configuration, among its competitors too, and replicates never compete
       with each other. So a configuration neither dies of one bad seed nor counts twice.
    """

    def judge(self, trial: Trial, history: Sequence[Trial], objective: Objective) -> Decision:
        """Decide after an epoch.

        Args:
            trial: with the new measurement.
            history: every trial of the study; the trial itself may be among them, in any state.
            objective: what is compared.
        """
        ...


def make_pruner(sweep: Sweep) -> Pruner:
    """Return the pruner that a sweep asks for."""
    match sweep.pruner:
        case NoPruning():
            return NoPruner()
        case MedianPruning():
            return MedianPruner(sweep.pruner)
        case SuccessiveHalving():
            return SuccessiveHalvingPruner(sweep.pruner)
        case Hyperband():
            return HyperbandPruner(sweep.pruner)
