"""What the ledger stores must be, to the letter, what Optuna would have stored."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)

from hpo.domain.search_space import Choices, Parameter, Range, SearchSpace, Value
from hpo.search.distributions import (
    distribution_json,
    distribution_of,
    internal_value,
    stored_space,
    widen,
)
from tests.study.simulation import make_sweep

KINDS: list[tuple[Parameter, BaseDistribution]] = [
    (Choices(name="p", values=(16, 32, 64)), IntDistribution(16, 64)),
    (Choices(name="p", values=(64, 16, 1600)), IntDistribution(16, 1600, log=True)),
    (Choices(name="p", values=(0, 1, 1000)), IntDistribution(0, 1000)),
    (Choices(name="p", values=(8,)), IntDistribution(8, 8)),
    (Choices(name="p", values=(0.0, 0.25, 0.5)), FloatDistribution(0.0, 0.5)),
    (Choices(name="p", values=(1e-5, 1e-3, 1e-1)), FloatDistribution(1e-5, 1e-1, log=True)),
    (Choices(name="p", values=(1, 0.5, 2)), FloatDistribution(0.5, 2.0)),
    (Choices(name="p", values=("sgd", "adamw")), CategoricalDistribution(("sgd", "adamw"))),
    (Choices(name="p", values=(True, False)), CategoricalDistribution((True, False))),
    (
        Choices(name="p", values=("low", "high"), is_ordered=True),
        CategoricalDistribution(("low", "high")),
    ),
    (Range(name="p", low=0, high=0.5), FloatDistribution(0, 0.5)),
    (Range(name="p", low=0, high=0.3, step=0.1), FloatDistribution(0, 0.3, step=0.1)),
    (Range(name="p", low=1e-6, high=0.1, is_log=True), FloatDistribution(1e-6, 0.1, log=True)),
    (Range(name="p", low=1, high=9, is_integer=True), IntDistribution(1, 9)),
    (Range(name="p", low=1, high=9, step=2, is_integer=True), IntDistribution(1, 9, step=2)),
    (
        Range(name="p", low=8, high=512, is_log=True, is_integer=True),
        IntDistribution(8, 512, log=True),
    ),
]


@pytest.mark.parametrize(("parameter", "expected"), KINDS)
def test_the_json_is_optunas_own(parameter: Parameter, expected: BaseDistribution) -> None:
    text = distribution_json(parameter)
    assert text == distribution_to_json(expected)
    assert json_to_distribution(text) == expected == distribution_of(parameter)


@pytest.mark.parametrize(("parameter", "expected"), KINDS)
def test_internal_values_are_optunas_own(parameter: Parameter, expected: BaseDistribution) -> None:
    values = (
        parameter.values if isinstance(parameter, Choices) else (parameter.low, parameter.high)
    )
    for value in values:
        internal = internal_value(parameter, value)
        assert isinstance(internal, float)
        assert internal == expected.to_internal_repr(value)
        assert expected.to_external_repr(internal) == value


@given(
    low=st.floats(-10, 10).map(lambda x: round(x, 3)),
    step=st.floats(0.001, 3).map(lambda x: round(x, 3)),
    count=st.integers(1, 50),
)
@settings(deadline=None)
def test_stepped_ranges_load_without_a_warning(low: float, step: float, count: int) -> None:
    parameter = Range(name="p", low=low, high=low + count * step, step=step)
    text = distribution_json(parameter)
    assert distribution_to_json(json_to_distribution(text)) == text


def test_the_baseline_and_first_points_are_inside_what_is_stored() -> None:
    sweep = make_sweep(
        space=SearchSpace(
            parameters=(
                Choices(name="lr", values=(1e-5, 1e-4)),
                Choices(name="optimizer", values=("sgd", "lion")),
                Range(name="batch_size", low=64, high=128, step=32, is_integer=True),
            )
        ),
        first=({"lr": 0.5}, {"batch_size": 16}),
    )
    stored = stored_space(sweep)
    assert stored["lr"] == Choices(name="lr", values=(1e-5, 1e-4, 1e-3, 0.5))
    assert stored["optimizer"] == Choices(name="optimizer", values=("sgd", "lion", "adamw"))
    assert stored["batch_size"] == Range(name="batch_size", low=16, high=128, is_integer=True)


@pytest.mark.parametrize("parameter", [parameter for parameter, _ in KINDS])
def test_a_parameter_that_holds_its_values_is_not_widened(parameter: Parameter) -> None:
    inside: list[Value] = (
        list(parameter.values) if isinstance(parameter, Choices) else [parameter.low]
    )
    assert widen(parameter, inside) == parameter


def test_a_choice_that_is_not_stored_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"optimizer is adamw.*stored_space"):
        internal_value(Choices(name="optimizer", values=("sgd",)), "adamw")
