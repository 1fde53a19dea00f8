"""TPE: learns from what went well and from what broke, in both directions, without noise."""

import logging
import math
import time
from dataclasses import replace

import optuna
import pytest

from hpo.domain.objective import Direction, Objective
from hpo.domain.search_space import Choices, Range, SearchSpace
from hpo.domain.sweep import Budget, Sweep, Tpe
from hpo.domain.trial import FailureKind, Role, Trial, TrialState
from hpo.search.sampler import make_sampler
from tests.study.simulation import completed, diverged, make_sweep, waiting

LR_SPACE = SearchSpace(
    parameters=(
        Range(name="lr", low=1e-5, high=1.0, is_log=True),
        Range(name="weight_decay", low=1e-6, high=1e-1, is_log=True),
    )
)


def log_distance(trial: Trial, lr: float) -> float:
    return abs(math.log10(float(trial.plan.config["lr"]) / lr))


def run(sweep: Sweep, is_divergence_known: bool = True) -> list[Trial]:
    """Run a study in which a learning rate above 1e-2 diverges."""
    sampler = make_sampler(sweep)
    history: list[Trial] = []
    while planned := sampler.propose(history):
        for trial in waiting(planned):
            if float(trial.plan.config["lr"]) <= 1e-2:
                history.append(completed(trial, log_distance(trial, 5e-3)))
            else:
                failed = diverged(trial)
                kind = FailureKind.DIVERGED if is_divergence_known else FailureKind.BUG
                history.append(replace(failed, failure=kind))
    return history


def num_diverged(history: list[Trial]) -> int:
    return sum(trial.state is TrialState.FAIL for trial in history)


def test_divergence_is_learnt_where_failure_is_not() -> None:
    budget = Budget(num_trials=60)
    known, unknown = [], []
    for seed in range(5):
        sweep = make_sweep(Tpe(), space=LR_SPACE, seed=seed, budget=budget)
        known.append(num_diverged(run(sweep)))
        unknown.append(num_diverged(run(sweep, is_divergence_known=False)))
    assert sum(known) / 5 <= 25
    assert sum(unknown) / 5 >= 1.5 * sum(known) / 5


@pytest.mark.parametrize("direction", list(Direction))
def test_it_closes_in_on_the_best(direction: Direction) -> None:
    objective = Objective(metric="val_loss", direction=direction)
    distances = []
    for seed in range(3):
        sweep = make_sweep(
            Tpe(),
            space=LR_SPACE,
            seed=seed,
            objectives=(objective,),
            budget=Budget(num_trials=50),
        )
        sampler, history = make_sampler(sweep), list[Trial]()
        while planned := sampler.propose(history):
            history += [
                completed(trial, objective.loss(log_distance(trial, 3e-3)))
                for trial in waiting(planned)
            ]
        distances += [log_distance(trial, 3e-3) for trial in history[-10:]]
    assert sum(distances) / len(distances) < 0.7  # decades; a random draw is 1.4 away


def test_replicates_are_one_observation() -> None:
    sweep = make_sweep(Tpe(startup_trials=4), space=LR_SPACE, replicates=3)
    sampler, history = make_sampler(sweep), list[Trial]()
    for index in range(8):
        planned = sampler.propose(history)
        assert [plan.replicate for plan in planned] == [0, 1, 2]
        history += [completed(t, index + t.plan.replicate) for t in waiting(planned)]
    # The same means from other replicates lead to the same proposal.
    turned = [replace(t, value=float(t.number // 3 + 2 - t.plan.replicate)) for t in history]
    assert make_sampler(sweep).propose(turned) == sampler.propose(history)


def test_trials_off_the_space_are_left_out_of_the_model() -> None:
    space = SearchSpace(
        parameters=(
            Choices(name="batch_size", values=(16, 32, 128)),  # without the baseline's 64
            Range(name="lr", low=1e-5, high=1.0, is_log=True),
        )
    )
    sweep = make_sweep(
        Tpe(startup_trials=2),
        space=space,
        first=({"optimizer": "sgd"}, {"lr": 50.0}),
        budget=Budget(num_trials=15),
    )
    history = run(sweep)
    assert len(history) == 15
    assert all(t.plan.config["batch_size"] in (16, 32, 128) for t in history[3:])


def test_a_parameter_with_one_value_is_set_and_not_modelled() -> None:
    space = SearchSpace(
        parameters=(
            Choices(name="optimizer", values=("sgd",)),
            Range(name="lr", low=1e-5, high=1.0, is_log=True),
        )
    )
    history = run(make_sweep(Tpe(startup_trials=2), space=space, budget=Budget(num_trials=9)))
    assert [trial.plan.config["optimizer"] for trial in history[1:]] == ["sgd"] * 8


def test_the_seed_moves_with_the_trial_number() -> None:
    sweep = make_sweep(Tpe(startup_trials=3), space=LR_SPACE)
    sampler, history = make_sampler(sweep), list[Trial]()
    for _ in range(8):
        history += [completed(t, log_distance(t, 1e-3)) for t in waiting(sampler.propose(history))]
    # A trial that says nothing changes no more than the number of the next.
    broken = replace(diverged(waiting(sampler.propose(history))[0]), failure=FailureKind.BUG)
    audit = replace(broken, plan=replace(broken.plan, role=Role.AUDIT))
    assert sampler.propose([*history, audit])[0].config != sampler.propose(history)[0].config


def test_workers_spread_out_while_nothing_has_ended() -> None:
    sweep = make_sweep(Tpe(startup_trials=5), space=LR_SPACE)
    sampler, history = make_sampler(sweep), list[Trial]()
    for _ in range(12):
        history += [completed(t, log_distance(t, 1e-3)) for t in waiting(sampler.propose(history))]
    at_once = []
    for _ in range(8):
        planned = waiting(sampler.propose(history))
        at_once += planned
        history += planned
    assert len({trial.plan.config_id for trial in at_once}) == 8


def test_it_leaves_optunas_logging_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    optuna.logging.enable_propagation()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.INFO)
    try:
        with caplog.at_level(logging.DEBUG):
            run(make_sweep(Tpe(startup_trials=2), space=LR_SPACE, budget=Budget(num_trials=6)))
        assert caplog.records == []
        assert optuna.logging.get_verbosity() == optuna.logging.INFO
    finally:
        optuna.logging.set_verbosity(before)
        optuna.logging.disable_propagation()


def test_a_thousand_trials_are_proposed_from_in_a_tenth_of_a_second() -> None:
    space = SearchSpace(
        parameters=(
            *LR_SPACE.parameters,
            Choices(name="batch_size", values=(16, 32, 64, 128)),
            Choices(name="optimizer", values=("adamw", "sgd", "lion")),
        )
    )
    drawn = make_sampler(make_sweep(space=space))
    history: list[Trial] = []
    while len(history) < 1000:
        history += [completed(t, log_distance(t, 1e-3)) for t in waiting(drawn.propose(history))]
    sampler = make_sampler(make_sweep(Tpe(), space=space))
    sampler.propose(history)  # the first call freezes them all; a resume pays it once
    times = []
    for _ in range(5):
        start = time.process_time()
        history += [completed(t, 0.5) for t in waiting(sampler.propose(history))]
        times.append(time.process_time() - start)
    assert sorted(times)[2] < 0.1
