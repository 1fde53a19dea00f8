"""The promises of `hpo.search.sampler.Sampler`, kept by every strategy."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.domain.search_space import Choices, Parameter, Range, SearchSpace, Value
from hpo.domain.sweep import Budget, Grid, OneAtATime, RandomSearch, Strategy, Sweep, Tpe
from hpo.domain.trial import Role, Trial, TrialState
from hpo.search.sampler import make_sampler
from tests.study.simulation import TWELVE_POINTS, completed, diverged, make_sweep, waiting

STRATEGIES: list[Strategy] = [OneAtATime(), Grid(), RandomSearch(), Tpe(startup_trials=3)]
PLANNED = (OneAtATime, Grid)

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)


def outcome(trial: Trial) -> Trial:
    """End a trial in a way that only depends on the trial."""
    kind = int(trial.plan.config_id, 16) / 16**12
    if kind < 0.15:
        return diverged(trial)
    if kind < 0.3:
        return replace(completed(trial, kind), state=TrialState.PRUNED)
    return completed(trial, abs(math.log10(float(trial.plan.config["lr"])) + 2) + kind)


def conduct(sweep: Sweep, history: list[Trial] | None = None, limit: int = 40) -> list[Trial]:
    """Run trials one after another from a history until nothing is left."""
    sampler = make_sampler(sweep)
    history = [trial if trial.state.is_finished else outcome(trial) for trial in history or []]
    while len(history) < limit:
        planned = sampler.propose(history)
        if not planned:
            break
        history += [outcome(trial) for trial in waiting(planned)]
    return history


def plans_of(history: list[Trial]) -> list[object]:
    return [trial.plan for trial in history]


@every_strategy
def test_a_proposal_depends_on_sweep_and_history_alone(strategy: Strategy) -> None:
    sweep = make_sweep(strategy, replicates=2)
    history = conduct(sweep, limit=20)[:20]
    state = random.getstate()
    first = make_sampler(sweep).propose(history)
    assert random.getstate() == state
    sampler = make_sampler(sweep)
    sampler.propose([])
    sampler.propose([completed(trial, -trial.number) for trial in history])
    assert sampler.propose(history) == first
    assert sampler.propose(history) == first


@every_strategy
@pytest.mark.parametrize("cut", [1, 2, 7, 15])
def test_a_study_cut_anywhere_continues_as_if_it_had_not_been(
    strategy: Strategy, cut: int
) -> None:
    sweep = make_sweep(strategy, budget=Budget(num_trials=24))
    whole = conduct(sweep)
    # What was planned with the cut trial waits in the ledger; it runs, and the study goes on.
    kept = [
        trial if trial.number < cut else replace(trial, state=TrialState.WAITING)
        for trial in whole[: len(whole) if isinstance(strategy, PLANNED) else cut]
    ]
    assert plans_of(conduct(sweep, kept)) == plans_of(whole)


@every_strategy
def test_numbers_follow_the_history_without_gaps(strategy: Strategy) -> None:
    history = conduct(make_sweep(strategy, replicates=2, budget=Budget(num_trials=20)))
    assert [trial.number for trial in history] == list(range(20))


@every_strategy
def test_the_baseline_leads_once_then_the_first_points(strategy: Strategy) -> None:
    first = ({"lr": 3e-4}, {"lr": 1e-2, "optimizer": "sgd"}, {"lr": 1e-3})
    sweep = make_sweep(strategy, first=first, replicates=2, budget=Budget(num_trials=12))
    history = conduct(sweep)
    assert [trial.plan.role for trial in history].count(Role.BASELINE) == 2
    assert [trial.plan.replicate for trial in history[:6]] == [0, 1, 0, 1, 0, 1]
    assert history[0].plan.config == sweep.baseline
    assert history[1].plan.role is Role.BASELINE
    assert history[2].plan.config == {**sweep.baseline, "lr": 3e-4}
    assert history[4].plan.config == {**sweep.baseline, "lr": 1e-2, "optimizer": "sgd"}
    # The third `first` point is the baseline itself, which has run.
    assert history[6].plan.config not in [trial.plan.config for trial in history[:6]]


@every_strategy
def test_params_are_the_varied_part_of_the_config(strategy: Strategy) -> None:
    sweep = make_sweep(strategy)
    for trial in conduct(sweep, limit=12):
        assert tuple(trial.plan.params) == sweep.space.names
        assert {**sweep.baseline, **trial.plan.params} == trial.plan.config
        for parameter in sweep.space.parameters:
            assert parameter.contains(trial.plan.params[parameter.name])


@every_strategy
def test_no_configuration_is_proposed_twice_and_the_space_ends(strategy: Strategy) -> None:
    sweep = make_sweep(strategy, space=TWELVE_POINTS, replicates=2)
    history = conduct(sweep)
    pairs = [(trial.plan.config_id, trial.plan.replicate) for trial in history]
    assert len(set(pairs)) == len(pairs)
    assert len(pairs) == 2 * (6 if isinstance(strategy, OneAtATime) else 12)
    assert make_sampler(sweep).propose(history) == ()


@every_strategy
def test_the_budget_is_cut_at_whole_configurations(strategy: Strategy) -> None:
    history = conduct(make_sweep(strategy, replicates=3, budget=Budget(num_trials=11)))
    assert len(history) == 9
    assert (
        make_sampler(make_sweep(strategy, replicates=3, budget=Budget(num_trials=2))).propose([])
        == ()
    )


@every_strategy
def test_audits_are_outside_the_budget_and_confirmations_inside(strategy: Strategy) -> None:
    sweep = make_sweep(strategy, budget=Budget(num_trials=6))
    history = conduct(sweep)[:4]
    for role, left in ((Role.AUDIT, 2), (Role.CONFIRM, 1)):
        extra = replace(history[1], plan=replace(history[1].plan, number=4, role=role))
        assert len(conduct(sweep, [*history, extra])) == 5 + left


@every_strategy
def test_waiting_and_running_trials_count_as_proposed(strategy: Strategy) -> None:
    sweep = make_sweep(strategy, budget=Budget(num_trials=16))
    sampler = make_sampler(sweep)
    history: list[Trial] = []
    while planned := sampler.propose(history):
        history += waiting(planned)
    assert len({trial.plan.config_id for trial in history}) == len(history) <= 16


@every_strategy
def test_a_longer_sweep_adds_what_is_missing(strategy: Strategy) -> None:
    short = make_sweep(strategy, budget=Budget(num_trials=5))
    history = conduct(short)
    assert len(history) == 5
    more_seeds = replace(short, replicates=2, budget=Budget(num_trials=12))
    longer = conduct(more_seeds, history)
    pairs = [(trial.plan.config_id, trial.plan.replicate) for trial in longer]
    assert len(longer) == 12
    assert len(set(pairs)) == 12
    assert all((config_id, 1) in pairs for config_id, _ in pairs)


@every_strategy
def test_confirmations_and_audits_are_not_replicates_of_the_plan(strategy: Strategy) -> None:
    sweep = make_sweep(strategy, replicates=2)
    history = conduct(replace(sweep, replicates=1, budget=Budget(num_trials=3)))
    for role in (Role.CONFIRM, Role.AUDIT):
        extra = replace(history[1].plan, number=3, replicate=1, role=role)
        proposed = conduct(sweep, [*history, replace(history[1], plan=extra)])[4:]
        pairs = [(trial.plan.config_id, trial.plan.replicate) for trial in proposed]
        assert (history[1].plan.config_id, 1) in pairs


@pytest.mark.parametrize("strategy", [OneAtATime(), Grid()], ids=lambda s: s.name)
def test_a_table_is_planned_at_once(strategy: Strategy) -> None:
    sampler = make_sampler(make_sweep(strategy, replicates=2))
    planned = waiting(sampler.propose([]))
    assert sampler.propose(planned) == ()
    assert len(planned) == 2 * (11 if isinstance(strategy, OneAtATime) else 108)


def parameters() -> st.SearchStrategy[list[Parameter]]:
    """Lists of numbers, texts and truths, and ranges, under different names."""
    numbers = st.lists(
        st.one_of(
            st.integers(-5, 5), st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 2))
        ),
        min_size=1,
        max_size=5,
        unique=True,
    )
    texts = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=4, unique=True)
    truths = st.lists(st.booleans(), min_size=1, max_size=2, unique=True)
    values: st.SearchStrategy[list[Value]] = st.one_of(
        numbers.map(list), texts.map(list), truths.map(list)
    )

    def build(lists: list[list[Value]], num_points: int) -> list[Parameter]:
        built: list[Parameter] = [
            Choices(name=f"p{index}", values=tuple(listed)) for index, listed in enumerate(lists)
        ]
        span = Range(name="span", low=0.5, high=8.0, is_log=True, num_points=num_points)
        return [*built, span]

    return st.builds(build, st.lists(values, min_size=1, max_size=3), st.integers(2, 5))


@given(
    varied=parameters(),
    picks=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    replicates=st.integers(1, 3),
    num_trials=st.one_of(st.none(), st.integers(1, 40)),
    is_grid=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_every_table_is_exact(
    varied: list[Parameter],
    picks: list[int],
    replicates: int,
    num_trials: int | None,
    is_grid: bool,
) -> None:
    points = [parameter.points for parameter in varied]
    baseline = {
        parameter.name: values[pick % len(values)]
        for parameter, values, pick in zip(varied, points, picks, strict=False)
    }
    sweep = make_sweep(
        Grid() if is_grid else OneAtATime(),
        space=SearchSpace(parameters=tuple(varied)),
        baseline=baseline,
        replicates=replicates,
        budget=Budget(num_trials=num_trials),
    )
    planned = make_sampler(sweep).propose([])
    num_configurations = (
        math.prod(map(len, points)) if is_grid else 1 + sum(len(values) - 1 for values in points)
    )
    whole = num_configurations * replicates
    room = whole if num_trials is None else num_trials // replicates * replicates
    pairs = {(plan.config_id, plan.replicate) for plan in planned}
    assert len(planned) == len(pairs) == min(whole, room)
    num_baselines = sum(plan.role is Role.BASELINE for plan in planned)
    assert num_baselines == (replicates if room else 0)
    assert all(plan.config == sweep.baseline for plan in planned[:num_baselines])
