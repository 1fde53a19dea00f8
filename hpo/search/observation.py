"""What a model of the search space learns from a configuration, from all its replicates."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from hpo.domain.trial import FailureKind, Trial, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """How a configuration did so far."""

    state: TrialState
    """COMPLETE with a value, PRUNED, or RUNNING while nothing is known."""
    value: float | None = None
    """In the objective's own direction; None while RUNNING and after a divergence."""
    epoch: int = 0
    """How far the value was trained; compared among PRUNED ones only."""
    has_diverged: bool = False
    """Whether a replicate diverged. Such a configuration is no answer, whatever the others say."""


def observe(trials: Sequence[Trial]) -> Observation | None:
    """Return what the replicates of one configuration say together; None when that is nothing.

    A divergence outweighs all else. With a COMPLETE replicate the value is the mean over those
    that ended, where a pruned one stands with its value so far. Failures that are not
    divergences say nothing about the configuration.
    """
    if any(trial.failure is FailureKind.DIVERGED for trial in trials):
        return Observation(state=TrialState.PRUNED, has_diverged=True)
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    pruned = [trial for trial in trials if trial.state is TrialState.PRUNED]
    values = [trial.value for trial in (*complete, *pruned) if trial.value is not None]
    if any(trial.value is not None for trial in complete):
        return Observation(state=TrialState.COMPLETE, value=fmean(values))
    if values:
        epoch = max(trial.num_epochs for trial in pruned)
        return Observation(state=TrialState.PRUNED, value=fmean(values), epoch=epoch)
    if any(not trial.state.is_finished for trial in trials):
        return Observation(state=TrialState.RUNNING)
    return None
