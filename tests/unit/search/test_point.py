"""Random points: inside the space, readable, spread evenly, and the same for the same seed."""

import math
import statistics

import pytest

from hpo.domain.search_space import Choices, Parameter, Params, Range, SearchSpace, Value
from hpo.search.point import draw_point, draw_unseen, num_values, shorten, value_at

PARAMETERS: list[tuple[Parameter, int | None]] = [
    (Choices(name="p", values=("a", "b", "c")), 3),
    (Range(name="p", low=0.0, high=0.5), None),
    (Range(name="p", low=1e-5, high=1.0, is_log=True), None),
    (Range(name="p", low=0.0, high=0.5, step=0.1), 6),
    (Range(name="p", low=3, high=9, is_integer=True), 7),
    (Range(name="p", low=2, high=10, step=4, is_integer=True), 3),
    (Range(name="p", low=8, high=512, is_log=True, is_integer=True), 505),
]


def draws(parameter: Parameter, count: int) -> list[Value]:
    space = SearchSpace(parameters=(parameter,))
    return [draw_point(space, seed)[parameter.name] for seed in range(count)]


@pytest.mark.parametrize(("parameter", "count"), PARAMETERS)
def test_values_are_counted_and_lie_inside(parameter: Parameter, count: int | None) -> None:
    assert num_values(parameter) == count
    values = [value_at(parameter, index) for index in range(count or 0)]
    assert len(set(values)) == len(values)
    assert all(parameter.contains(value) for value in values)
    drawn = draws(parameter, 300)
    assert all(parameter.contains(value) for value in drawn)
    if count is not None and count < 10:
        assert set(drawn) == set(values)


def test_a_logarithmic_range_is_even_in_its_logarithm() -> None:
    parameter = Range(name="lr", low=1e-4, high=1.0, is_log=True)
    logs = [math.log10(float(value)) for value in draws(parameter, 2000)]
    assert statistics.fmean(logs) == pytest.approx(-2, abs=0.1)
    assert statistics.stdev(logs) == pytest.approx(4 / math.sqrt(12), abs=0.05)


def test_a_whole_number_on_a_logarithmic_range_owns_half_a_unit_on_either_side() -> None:
    drawn = draws(Range(name="p", low=1, high=3, is_log=True, is_integer=True), 3000)
    share = math.log(1.5 / 0.5) / math.log(3.5 / 0.5)
    assert drawn.count(1) / 3000 == pytest.approx(share, abs=0.03)


def test_drawn_values_can_be_read_and_typed_again() -> None:
    log, linear = Range(name="p", low=1e-5, high=1, is_log=True), Range(name="p", low=0, high=0.5)
    assert shorten(log, 0.000316227766) == 0.000316228
    assert shorten(linear, 0.123456789) == 0.123457
    assert shorten(Range(name="p", low=1e6, high=1e6 + 1), 1e6 + 0.123456789) == 1000000.123457
    narrow = Range(name="p", low=1.0, high=1.0000001, is_log=True)
    assert shorten(narrow, 1.00000004123) == pytest.approx(1.00000004123, abs=1e-12)
    assert shorten(Range(name="p", low=0.12345678, high=0.5), 0.1234568) == 0.123457


def test_golden_points_never_change() -> None:
    space = SearchSpace(
        parameters=(
            Range(name="lr", low=1e-5, high=1.0, is_log=True),
            Choices(name="optimizer", values=("adamw", "sgd")),
            Range(name="dropout", low=0.0, high=0.5, step=0.1),
        )
    )
    assert draw_point(space, 0) == {"lr": 0.166767, "optimizer": "sgd", "dropout": 0.2}
    assert draw_unseen(space, lambda _: False, 0, 1) == {
        "lr": 0.0017969,
        "optimizer": "adamw",
        "dropout": 0.4,
    }


def test_every_point_of_a_small_space_is_found_and_then_none() -> None:
    space = SearchSpace(
        parameters=(
            Choices(name="a", values=tuple(range(10))),
            Range(name="b", low=0.0, high=1.0, step=0.1),
        )
    )
    seen: list[Params] = []
    while (point := draw_unseen(space, seen.__contains__, 5, len(seen))) is not None:
        seen.append(point)
    assert len(seen) == 110
