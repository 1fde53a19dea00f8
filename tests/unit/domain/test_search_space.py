"""Choices, ranges and the points of them."""

# ruff: noqa: E501  # a table is read row by row

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo.domain.search_space import (
    Choices,
    Range,
    SearchSpace,
    SpaceError,
    kind_of,
    same_value,
)


def spread(low: float, high: float, **options: object) -> Range:
    return Range(name="x", low=low, high=high, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "num_points", "points"),
    [
        (1e-5, 1e-1, 5, (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
        (1e-4, 1.0, 3, (1e-4, 1e-2, 1.0)),
        (1.0, 1000.0, 4, (1.0, 10.0, 100.0, 1000.0)),
        (1e-6, 1e-2, 9, (1e-6, 3.16228e-6, 1e-5, 3.16228e-5, 1e-4, 3.16228e-4, 1e-3, 3.16228e-3, 1e-2)),
        (0.3, 0.6, 2, (0.3, 0.6)),
    ],
)  # fmt: skip
def test_logarithmic_points_are_exact(
    low: float, high: float, num_points: int, points: tuple[float, ...]
) -> None:
    assert spread(low, high, is_log=True, num_points=num_points).points == points


def test_linear_points_are_free_of_rounding() -> None:
    assert spread(0.0, 0.6, step=0.1).points == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    assert spread(0.0, 1.0, num_points=11).points[3] == 0.3
    assert spread(-0.3, 0.3, step=0.1).points == (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3)
    assert spread(-0.3, 0.3, num_points=7).points == (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3)
    assert spread(0.1, 0.7, step=0.2).points == (0.1, 0.3, 0.5, 0.7)


def test_points_of_whole_numbers_are_whole_and_not_repeated() -> None:
    points = spread(1, 8, is_log=True, is_integer=True, num_points=6).points
    assert points == (1, 2, 3, 5, 8)
    assert all(isinstance(point, int) for point in points)


@given(
    st.floats(1e-9, 1e6),
    st.floats(1.001, 1e9),
    st.booleans(),
    st.booleans(),
    st.integers(2, 50),
)
def test_points_begin_and_end_at_the_bounds_and_rise(low, ratio, is_log, is_integer, n) -> None:
    if is_integer:
        low, ratio = math.ceil(low), math.ceil(ratio)
    space = spread(low, low * ratio, is_log=is_log, is_integer=is_integer, num_points=n)
    points = space.points
    assert points[0] == space.low
    assert points[-1] == space.high
    assert list(points) == sorted(set(points))
    assert all(space.contains(point) for point in points)
    assert all(space.snap(float(point)) == point for point in points)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 1, "high": 1}, "x.low is 1, must be below high (1)"),
        ({"low": 2, "high": 1}, "x.low is 2, must be below high (1)"),
        ({"low": math.nan, "high": 1}, "x.low is nan, write a finite number"),
        ({"low": 0, "high": math.inf}, "x.high is inf, write a finite number"),
        ({"low": 0, "high": 1, "is_log": True}, "x.low is 0, must be > 0 when log is true"),
        ({"low": 1, "high": 2, "is_log": True, "step": 1}, "x.step does not go with log, remove one of them"),
        ({"low": 0, "high": 1, "step": -1}, "x.step is -1, must be > 0"),
        ({"low": 0, "high": 1, "step": math.nan}, "x.step is nan, must be > 0"),
        ({"low": 0, "high": 1, "step": 2}, "x.step is 2, larger than the range, write a smaller step"),
        ({"low": 0, "high": 1, "step": 1e-9}, "x.step makes more than 1000 values, write a larger step"),
        ({"low": 0, "high": 0.5, "step": 0.15},
         "x.step is 0.15, which does not divide the range 0 to 0.5, write high: 0.45 or another step"),
        ({"low": 0, "high": 1.5, "is_integer": True}, "x.high is 1.5, must be a whole number"),
        ({"low": 0, "high": 1, "num_points": 1}, "x.points is 1, must be 2 to 1000"),
        ({"low": 0, "high": 1, "num_points": 2, "step": 1}, "x.points does not go with step, remove one of them"),
    ],
)  # fmt: skip
def test_an_impossible_range_says_what_to_write(options: dict[str, float], message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        spread(**options)
    assert str(caught.value) == message


def test_a_continuous_range_has_no_points() -> None:
    with pytest.raises(SpaceError, match="x needs points"):
        spread(0, 1).points  # noqa: B018


def test_a_range_contains_what_lies_on_its_step() -> None:
    space = spread(0.0, 0.6, step=0.2)
    assert space.contains(0.2)
    assert space.contains(0.6000000000000001) is False
    assert not space.contains(0.3)
    assert not space.contains(-0.2)
    assert not space.contains("0.2")
    assert not space.contains(value=True)
    assert not spread(1, 9, is_integer=True).contains(2.5)
    assert spread(1, 9, is_integer=True).contains(2.0)
    assert spread(0.0, 1.0).contains(1 / 3)


def test_a_value_snaps_to_the_nearest_allowed_one() -> None:
    assert spread(0.0, 0.6, step=0.2).snap(0.31) == 0.4
    assert spread(0.0, 0.6, step=0.2).snap(9) == 0.6
    assert spread(1, 9, is_integer=True).snap(2.6) == 3
    assert spread(0.0, 1.0).snap(0.123) == 0.123


@pytest.mark.parametrize(
    ("values", "index", "message"),
    [
        ((), None, "x lists no values, write at least one"),
        ((1, "a"), 1, "x mixes number and text (a), write values of one kind"),
        ((1, True), 1, "x mixes number and true/false (True), write values of one kind"),
        ((1, 2, 1.0), 2, "x lists 1.0 twice, remove one"),
        ((1.0, math.inf), 1, "x lists inf, write finite numbers"),
    ],
)
def test_impossible_choices_say_what_to_write(
    values: tuple[float, ...], index: int | None, message: str
) -> None:
    with pytest.raises(SpaceError) as caught:
        Choices(name="x", values=values)
    assert str(caught.value) == message
    assert caught.value.index == index


def test_choices_know_their_kind_and_members() -> None:
    numbers = Choices(name="x", values=(1, 2.5))
    words = Choices(name="x", values=("1", "a"))
    flags = Choices(name="x", values=(True, False))
    assert (numbers.is_numeric, words.is_numeric, flags.is_numeric) == (True, False, False)
    assert numbers.contains(1.0)
    assert not words.contains(1)
    assert not flags.contains(1)
    assert numbers.points == (1, 2.5)


def test_values_are_one_when_they_mean_the_same() -> None:
    assert same_value(1, 1.0)
    assert not same_value(1, right=True)
    assert not same_value("1", 1)
    assert [kind_of(value) for value in (True, 1, 0.5, "a")] == [
        "true/false",
        "number",
        "number",
        "text",
    ]


def test_a_space_holds_each_name_once_in_order() -> None:
    one, other = Choices(name="b", values=(1,)), Choices(name="a", values=(1,))
    space = SearchSpace(parameters=(one, other))
    assert space.names == ("b", "a")
    assert space["a"] is other
    with pytest.raises(KeyError):
        space["c"]
    with pytest.raises(ValueError, match="twice"):
        SearchSpace(parameters=(one, one))
    with pytest.raises(ValueError, match="vary is empty"):
        SearchSpace(parameters=())
