"""What replicates say together to a model."""

from dataclasses import replace

from hpo.domain.trial import FailureKind, Trial, TrialState
from hpo.search.observation import Observation, observe
from tests.study.simulation import diverged, make_trial

RUNNING = make_trial(0, [0.9])
WAITING = replace(make_trial(0), state=TrialState.WAITING)
BROKEN = replace(make_trial(0), state=TrialState.FAIL, failure=FailureKind.BUG)
DIVERGED = diverged(make_trial(0))


def done(value: float) -> Trial:
    return make_trial(0, [value], state=TrialState.COMPLETE)


def pruned(*curve: float) -> Trial:
    return make_trial(0, list(curve), state=TrialState.PRUNED)


def test_complete_replicates_are_averaged() -> None:
    expected = Observation(state=TrialState.COMPLETE, value=0.25)
    assert observe([done(0.2), done(0.3)]) == expected
    assert observe([done(0.25), RUNNING, WAITING]) == expected


def test_a_pruned_replicate_counts_with_its_value_so_far() -> None:
    assert observe([done(0.2), pruned(0.9, 0.8)]) == Observation(
        state=TrialState.COMPLETE, value=0.5
    )
    assert observe([pruned(0.9, 0.8), WAITING]) == Observation(
        state=TrialState.PRUNED, value=0.8, epoch=2
    )


def test_a_divergence_outweighs_everything() -> None:
    expected = Observation(state=TrialState.PRUNED, has_diverged=True)
    assert observe([done(0.2), DIVERGED]) == expected
    assert observe([RUNNING, DIVERGED, BROKEN]) == expected


def test_other_failures_say_nothing() -> None:
    assert observe([BROKEN]) is None
    assert observe([BROKEN, done(0.2)]) == Observation(state=TrialState.COMPLETE, value=0.2)
    assert observe([BROKEN, WAITING]) == Observation(state=TrialState.RUNNING)


def test_what_has_not_ended_is_running() -> None:
    assert observe([WAITING]) == observe([RUNNING]) == Observation(state=TrialState.RUNNING)
