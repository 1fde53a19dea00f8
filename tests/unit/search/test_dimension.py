"""A model's coordinates: orders become positions, and every value comes back as it was."""

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from hpo.domain.search_space import Choices, Parameter, Range, Value
from hpo.search.dimension import Dimension

CASES: list[tuple[Parameter, object, Value, Value]] = [
    (Choices(name="p", values=(1e-1, 1e-5, 1e-3)), IntDistribution(0, 2), 1e-3, 1),
    (
        Choices(name="p", values=("small", "big", "huge"), is_ordered=True),
        IntDistribution(0, 2),
        "huge",
        2,
    ),
    (Choices(name="p", values=("x", "y")), CategoricalDistribution(("x", "y")), "y", "y"),
    (
        Choices(name="p", values=(True, False)),
        CategoricalDistribution((True, False)),
        False,
        False,
    ),
    (Range(name="p", low=0.0, high=0.5, step=0.1), IntDistribution(0, 5), 0.3, 3),
    (Range(name="p", low=1, high=9, step=4, is_integer=True), IntDistribution(0, 2), 9, 2),
    (Range(name="p", low=1, high=9, is_integer=True), IntDistribution(1, 9), 4, 4),
    (
        Range(name="p", low=8, high=512, is_log=True, is_integer=True),
        IntDistribution(8, 512, log=True),
        64,
        64,
    ),
    (
        Range(name="p", low=1e-5, high=1, is_log=True),
        FloatDistribution(1e-5, 1, log=True),
        0.5,
        0.5,
    ),
]


@pytest.mark.parametrize(("parameter", "distribution", "value", "coordinate"), CASES)
def test_a_value_has_a_coordinate_and_comes_back(
    parameter: Parameter, distribution: object, value: Value, coordinate: Value
) -> None:
    dimension = Dimension(parameter=parameter)
    assert dimension.distribution() == distribution
    assert dimension.encode(value) == coordinate
    assert dimension.decode(coordinate) == value
    assert type(dimension.decode(coordinate)) is type(value)


@pytest.mark.parametrize("parameter", [case[0] for case in CASES])
def test_a_value_outside_has_no_coordinate(parameter: Parameter) -> None:
    dimension = Dimension(parameter=parameter)
    assert dimension.encode("elsewhere") is None
    assert dimension.encode(1e9) is None
    if isinstance(parameter, Range) and (parameter.step or parameter.is_integer):
        assert dimension.encode(parameter.low + 0.05) is None
