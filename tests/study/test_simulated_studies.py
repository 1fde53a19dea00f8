"""Whole studies of a sampler and a pruner in virtual time."""

import math
import time

import pytest

from hpo.domain.search_space import Range, SearchSpace
from hpo.domain.sweep import (
    Budget,
    Grid,
    Hyperband,
    MedianPruning,
    NoPruning,
    OneAtATime,
    Pruner,
    RandomSearch,
    Strategy,
    SuccessiveHalving,
    Tpe,
)
from hpo.domain.trial import PlannedTrial, Role, TrialState
from hpo.search.seeds import derive_seed
from tests.study.simulation import Ended, make_sweep, simulate

LR_SPACE = SearchSpace(
    parameters=(
        Range(name="lr", low=1e-5, high=1.0, is_log=True),
        Range(name="weight_decay", low=1e-6, high=1e-1, is_log=True),
    )
)


def power_law(plan: PlannedTrial, epoch: int) -> float:
    """A loss that falls with a power of the epoch to a floor that the configuration sets.

    Best at lr 3e-3 and weight decay 1e-3. The curves keep their order but for noise of 2 %.
    """
    floor = 0.1 + 0.15 * abs(math.log10(float(plan.config["lr"]) / 3e-3))
    floor += 0.03 * abs(math.log10(float(plan.config["weight_decay"]) / 1e-3))
    noise = derive_seed(plan.number, epoch, "noise") / 2**63 - 0.5
    return (floor + 0.8 * floor / math.pow(epoch, 0.7)) * (1 + 0.02 * noise)


def diverging(plan: PlannedTrial, epoch: int) -> float | None:
    """The same, but above lr 0.03 the loss is not finite from the second epoch on."""
    return None if float(plan.config["lr"]) > 0.03 and epoch > 1 else power_law(plan, epoch)


def best_floor(ended: Ended) -> float:
    return min(
        trial.value
        for trial in ended.trials
        if trial.state is TrialState.COMPLETE and trial.value is not None
    )


@pytest.mark.parametrize(
    ("pruner", "most"),
    [
        (SuccessiveHalving(), 0.35),
        (SuccessiveHalving(reduction_factor=2), 0.4),
        (Hyperband(), 0.6),
        (MedianPruning(), 0.5),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_pruning_200_trials_on_8_slots_keeps_the_best_for_half_the_epochs(
    pruner: Pruner, most: float
) -> None:
    budget = Budget(num_trials=200)
    full = simulate(make_sweep(space=LR_SPACE, epochs=27, budget=budget), power_law, slots=8)
    pruned = simulate(
        make_sweep(space=LR_SPACE, epochs=27, budget=budget, pruner=pruner), power_law, slots=8
    )
    assert full.num_epochs == 200 * 27
    assert full.most_running == pruned.most_running == 8
    assert pruned.num_epochs <= most * full.num_epochs
    assert {t.plan.config_id for t in full.trials} == {t.plan.config_id for t in pruned.trials}
    best = min(full.trials, key=lambda trial: trial.value or math.inf)
    kept = next(t for t in pruned.trials if t.plan.config_id == best.plan.config_id)
    assert kept.state is TrialState.COMPLETE
    assert best_floor(pruned) == pytest.approx(best_floor(full))
    assert all(trial.reason for trial in pruned.trials if trial.state is TrialState.PRUNED)


def test_the_same_study_ends_the_same_way() -> None:
    sweep = make_sweep(
        Tpe(), space=LR_SPACE, pruner=SuccessiveHalving(), budget=Budget(num_trials=40)
    )
    first, second = (simulate(sweep, diverging, slots=4) for _ in range(2))
    assert first == second
    other_seed = make_sweep(
        Tpe(), space=LR_SPACE, pruner=SuccessiveHalving(), budget=Budget(num_trials=40), seed=1
    )
    assert simulate(other_seed, diverging, slots=4) != first


def test_tpe_with_pruning_and_divergence_beats_random_on_the_same_budget() -> None:
    def mean_best(strategy: Strategy) -> float:
        ends = [
            simulate(
                make_sweep(
                    strategy,
                    space=LR_SPACE,
                    pruner=SuccessiveHalving(),
                    budget=Budget(num_trials=50),
                    seed=seed,
                ),
                diverging,
                slots=4,
            )
            for seed in range(4)
        ]
        return sum(best_floor(ended) for ended in ends) / len(ends)

    assert mean_best(Tpe()) < mean_best(RandomSearch())


@pytest.mark.parametrize("strategy", [OneAtATime(), Grid()], ids=lambda s: s.name)
@pytest.mark.parametrize("slots", [1, 4])
def test_every_planned_trial_ends_once(strategy: Strategy, slots: int) -> None:
    ended = simulate(make_sweep(strategy, replicates=2), diverging, slots=slots)
    assert all(trial.state.is_finished for trial in ended.trials)
    assert len(ended.trials) == 2 * (11 if isinstance(strategy, OneAtATime) else 108)
    assert [t.plan.role for t in ended.trials[:3]] == [Role.BASELINE, Role.BASELINE, Role.POINT]


def test_replicates_of_a_good_configuration_all_survive() -> None:
    sweep = make_sweep(
        space=LR_SPACE,
        epochs=27,
        replicates=3,
        budget=Budget(num_trials=150),
        pruner=SuccessiveHalving(),
    )
    ended = simulate(sweep, power_law, slots=6)
    best = min(
        (t for t in ended.trials if t.state is TrialState.COMPLETE), key=lambda t: t.value or 9
    )
    siblings = [t for t in ended.trials if t.plan.config_id == best.plan.config_id]
    assert [trial.state for trial in siblings] == [TrialState.COMPLETE] * 3
    assert ended.count(TrialState.PRUNED) > 75


def test_a_thousand_trials_are_conducted_in_seconds() -> None:
    sweep = make_sweep(
        space=LR_SPACE, epochs=9, budget=Budget(num_trials=1000), pruner=NoPruning()
    )
    start = time.process_time()
    ended = simulate(sweep, power_law, slots=8, max_trials=1000)
    assert len(ended.trials) == 1000
    assert time.process_time() - start < 5
