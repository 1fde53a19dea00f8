"""One variable at a time: what is planned, in which order, under which axis."""

from hpo.domain.search_space import Choices, SearchSpace
from hpo.domain.sweep import Budget, OneAtATime
from hpo.domain.trial import Role
from hpo.search.sampler import make_sampler
from tests.study.simulation import make_sweep

SPACE = SearchSpace(
    parameters=(
        Choices(name="lr", values=(1e-4, 1e-3, 1e-2)),
        Choices(name="batch_size", values=(32, 64.0)),
        Choices(name="optimizer", values=("sgd", "lion")),
    )
)


def test_the_baseline_leads_and_axes_follow_in_the_order_written() -> None:
    planned = make_sampler(make_sweep(OneAtATime(), space=SPACE)).propose([])
    assert [(plan.axis, plan.axis and plan.params[plan.axis]) for plan in planned] == [
        (None, None),
        ("lr", 1e-4),
        ("lr", 1e-2),
        ("batch_size", 32),  # 64.0 is the baseline's 64
        ("optimizer", "sgd"),  # the baseline's adamw is not in the list, and still the control
        ("optimizer", "lion"),
    ]
    assert [plan.role for plan in planned] == [Role.BASELINE] + [Role.POINT] * 5


def test_replicates_of_a_configuration_are_neighbours() -> None:
    sweep = make_sweep(OneAtATime(), space=SPACE, replicates=3, budget=Budget(num_trials=7))
    planned = make_sampler(sweep).propose([])
    assert [(plan.axis, plan.replicate) for plan in planned] == [
        (None, 0), (None, 1), (None, 2), ("lr", 0), ("lr", 1), ("lr", 2),
    ]  # fmt: skip


def test_a_first_point_on_an_axis_belongs_to_it_and_runs_once() -> None:
    first = ({"optimizer": "lion"}, {"lr": 1e-2, "batch_size": 32}, {"weight_decay": 0.0})
    planned = make_sampler(make_sweep(OneAtATime(), space=SPACE, first=first)).propose([])
    assert [plan.axis for plan in planned] == [
        None, "optimizer", None, None, "lr", "lr", "batch_size", "optimizer",
    ]  # fmt: skip
    assert len({plan.config_id for plan in planned}) == 8


def test_only_the_axis_differs_from_the_baseline() -> None:
    sweep = make_sweep(OneAtATime(), space=SPACE)
    for plan in make_sampler(sweep).propose([])[1:]:
        differing = [key for key in plan.config if plan.config[key] != sweep.baseline[key]]
        assert differing == [plan.axis]
