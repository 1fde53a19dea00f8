"""Asynchronous successive halving by example."""

import pytest

from hpo.domain.objective import Direction, Objective
from hpo.domain.sweep import SuccessiveHalving
from hpo.domain.trial import TrialState
from hpo.search.pruners.successive_halving import SuccessiveHalvingPruner
from tests.study.simulation import LOSS, make_trial


def test_only_rungs_are_judged() -> None:
    pruner = SuccessiveHalvingPruner(SuccessiveHalving(min_epochs=2, reduction_factor=3))
    history = [make_trial(n, [0.1 * n] * 27, state=TrialState.COMPLETE) for n in range(9)]
    pruned = [
        epoch
        for epoch in range(1, 27)
        if not pruner.judge(make_trial(50, [9.0] * epoch), history, LOSS).is_continue
    ]
    assert pruned == [2, 6, 18]


@pytest.mark.parametrize(
    ("num_peers", "value", "goes_on"),
    [
        (0, 9.0, True),
        (1, 9.0, True),  # two measured, fewer than eta
        (2, 9.0, False),  # three measured: only the best
        (2, -1.0, True),
        (2, 0.0, True),  # equal to the best
        (4, 0.5, False),  # five measured: still only the best
        (5, 0.5, True),  # six: the best two
        (5, 1.5, False),
    ],
)
def test_the_best_fraction_goes_on(num_peers: int, value: float, goes_on: bool) -> None:
    pruner = SuccessiveHalvingPruner(SuccessiveHalving())
    history = [make_trial(number, [float(number)]) for number in range(num_peers)]
    assert pruner.judge(make_trial(50, [value]), history, LOSS).is_continue is goes_on


def test_the_reason_has_rank_and_rung() -> None:
    pruner = SuccessiveHalvingPruner(SuccessiveHalving(min_epochs=3))
    history = [make_trial(number, [number / 10] * 3) for number in range(8)]
    reason = pruner.judge(make_trial(50, [0.55] * 3), history, LOSS).reason
    assert reason == "val_loss 0.55 is number 7 of 9 at epoch 3, where only the best 3 go on"
    reason = pruner.judge(make_trial(50, [0.55] * 3), history[:3], LOSS).reason
    assert reason == "val_loss 0.55 is number 4 of 4 at epoch 3, where only the best goes on"


def test_large_is_good_when_the_direction_says_so() -> None:
    accuracy = Objective(metric="val_accuracy", direction=Direction.MAXIMIZE)
    pruner = SuccessiveHalvingPruner(SuccessiveHalving())
    history = [make_trial(n, [n / 10], objective=accuracy) for n in range(5)]
    assert pruner.judge(make_trial(50, [0.9], objective=accuracy), history, accuracy).is_continue
    reason = pruner.judge(make_trial(50, [0.0], objective=accuracy), history, accuracy).reason
    assert reason == "val_accuracy 0 is number 5 of 6 at epoch 1, where only the best 2 go on"


def test_without_a_known_end_the_rungs_go_on() -> None:
    pruner = SuccessiveHalvingPruner(SuccessiveHalving())
    history = [make_trial(n, [0.1] * 81, config={"epochs": "many"}) for n in range(5)]
    trial = make_trial(50, [9.0] * 81, config={"epochs": "many"})
    assert not pruner.judge(trial, history, LOSS).is_continue
