"""The median rule: stop a trial that is worse than half of the others were at the same epoch."""

from collections.abc import Sequence
from statistics import median

from hpo.domain.decision import CONTINUE, Action, Decision
from hpo.domain.objective import Objective
from hpo.domain.sweep import MedianPruning
from hpo.domain.trial import Trial, TrialState
from hpo.search.standing import (
    PEER_ROLES,
    Standings,
    digits_to_tell_apart,
    is_worse,
    may_prune,
    number,
    phrase,
)


class MedianPruner:
    """Compares the trial's value so far with the median of the others' at the same epoch.

    It acts after `warmup_epochs`, once `startup_trials` other configurations have ended and as
    many have reached the epoch. A trial exactly at the median goes on.

    Source: Golovin et al., Google Vizier, KDD 2017, section 3.2.
    Differs: values so far rather than running averages, and every trial that reached the epoch
    counts, stopped ones too: without those the median sinks from epoch to epoch towards the few
    that were never stopped.
    """

    def __init__(self, options: MedianPruning) -> None:
        self._options = options
        self._standings = Standings()

    def judge(self, trial: Trial, history: Sequence[Trial], objective: Objective) -> Decision:
        """Prune a trial whose configuration stands above the median."""
        epoch = trial.num_epochs
        if epoch <= self._options.warmup_epochs or not may_prune(trial):
            return CONTINUE
        if _num_ended(trial, history) < self._options.startup_trials:
            return CONTINUE
        peers = self._standings.peers(trial, history, epoch, objective)
        own = self._standings.own(trial, history, epoch, objective)
        if own is None or len(peers) < max(1, self._options.startup_trials):
            return CONTINUE
        middle = median(peer.loss for peer in peers)
        if not is_worse(own.loss, middle):
            return CONTINUE
        digits = digits_to_tell_apart(own.loss, middle)
        side = "above" if objective.loss(1.0) > 0 else "below"
        kind = "configurations" if any(peer.num_trials > 1 for peer in peers) else "trials"
        return Decision(
            action=Action.PRUNE,
            reason=f"{phrase(own, objective, digits)} is {side} the median"
            f" {number(middle, objective, digits)} of {len(peers)} {kind} at epoch {epoch}",
        )


def _num_ended(trial: Trial, history: Sequence[Trial]) -> int:
    """Return how many other configurations have a trial that ended with a result."""
    return len(
        {
            other.plan.config_id
            for other in history
            if other.state in (TrialState.COMPLETE, TrialState.PRUNED)
            and other.plan.role in PEER_ROLES
            and other.plan.config_id != trial.plan.config_id
        }
    )
