"""What may vary, and over which values: `Choices`, `Range`, and the `SearchSpace` of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NoReturn

Value = bool | int | float | str
"""One value of one parameter. Always a plain JSON scalar."""

Params = Mapping[str, Value]
"""The values a trial got. A trial may lack keys that are inactive for it."""


MOST_POINTS = 1000
"""Of one range; more is a misplaced zero, not a search."""


def same_value(left: Value, right: Value) -> bool:
    """Tell whether two values are one: `1` and `1.0` are, `1` and `true` are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def kind_of(value: Value) -> str:
    """Return the word for the kind of a value: `true/false`, `number` or `text`."""
    if isinstance(value, bool):
        return "true/false"
    return "text" if isinstance(value, str) else "number"


def _exact(number: float) -> Decimal:
    """Return a number as it is written, so that -0.3 + 3 x 0.1 is 0 and not 6e-17."""
    return Decimal(repr(number))


class SpaceError(ValueError):
    """A parameter that cannot exist."""

    def __init__(
        self, name: str, message: str, *, part: str = "", index: int | None = None
    ) -> None:
        super().__init__(name, message)
        self.name = name
        """The parameter."""
        self.part = part
        """What of it is wrong: `low`, `step`, ..., or empty for all of it."""
        self.index = index
        """The position of the wrong value in a list, or None."""
        self.message = message
        """`is 0, must be > 0 when log is true`."""

    def __str__(self) -> str:
        return f"{self.name}{'.' if self.part else ''}{self.part} {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """A parameter that takes exactly the listed values."""

    name: str
    """The key of the baseline that it varies."""
    values: tuple[Value, ...]
    """In the order written, without repeats, all of one kind."""
    is_ordered: bool = False
    """Whether neighbours in the list are near each other. Lists of numbers always are."""

    def __post_init__(self) -> None:
        if not self.values:
            raise SpaceError(self.name, "lists no values, write at least one")
        for index, value in enumerate(self.values):
            message = self._problem(index, value)
            if message:
                raise SpaceError(self.name, message, index=index)

    def _problem(self, index: int, value: Value) -> str:
        first = kind_of(self.values[0])
        if kind_of(value) != first:
            return f"mixes {first} and {kind_of(value)} ({value}), write values of one kind"
        if isinstance(value, float) and not math.isfinite(value):
            return f"lists {value}, write finite numbers"
        if any(same_value(value, other) for other in self.values[:index]):
            return f"lists {value} twice, remove one"
        return ""

    @property
    def is_numeric(self) -> bool:
        """Whether the values are numbers."""
        return kind_of(self.values[0]) == "number"

    @property
    def points(self) -> tuple[Value, ...]:
        """The values that one-at-a-time and grid run."""
        return self.values

    def contains(self, value: Value) -> bool:
        """Tell whether `value` is one of the choices."""
        return any(same_value(value, choice) for choice in self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A numeric parameter between two bounds, both inclusive."""

    name: str
    """The key of the baseline that it varies."""
    low: float
    """The smallest value."""
    high: float
    """The largest value, above `low`."""
    is_log: bool = False
    """Whether ratios matter rather than differences. Needs `low > 0`, excludes `step`."""
    step: float | None = None
    """The distance between neighbours, which divides the range; None means continuous."""
    is_integer: bool = False
    """Whether only whole numbers are meant."""
    num_points: int | None = None
    """How many evenly spread values one-at-a-time and grid take; None where they are not used."""

    def __post_init__(self) -> None:
        for part, bound in (("low", self.low), ("high", self.high)):
            if not math.isfinite(bound):
                self._refuse(part, f"is {bound}, write a finite number")
        if self.low >= self.high:
            self._refuse("low", f"is {self.low:g}, must be below high ({self.high:g})")
        if self.is_log and self.low <= 0:
            self._refuse("low", f"is {self.low:g}, must be > 0 when log is true")
        if self.step is not None:
            self._check_step(self.step)
        if self.is_integer:
            self._check_whole()
        if self.num_points is not None:
            self._check_num_points(self.num_points)

    def _refuse(self, part: str, message: str) -> NoReturn:
        raise SpaceError(self.name, message, part=part)

    def _check_step(self, step: float) -> None:
        if self.is_log:
            self._refuse("step", "does not go with log, remove one of them")
        if not (math.isfinite(step) and step > 0):
            self._refuse("step", f"is {step:g}, must be > 0")
        num_steps = (self.high - self.low) / step
        if num_steps > MOST_POINTS:
            self._refuse("step", f"makes more than {MOST_POINTS} values, write a larger step")
        if num_steps < 1 - 1e-9:
            self._refuse("step", f"is {step:g}, larger than the range, write a smaller step")
        if abs(num_steps - round(num_steps)) > 1e-9 * num_steps:
            highest = self.low + math.floor(num_steps) * step
            self._refuse(
                "step",
                f"is {step:g}, which does not divide the range {self.low:g} to {self.high:g},"
                f" write high: {highest:g} or another step",
            )

    def _check_whole(self) -> None:
        for part, number in (("low", self.low), ("high", self.high), ("step", self.step)):
            if number is not None and not float(number).is_integer():
                self._refuse(part, f"is {number:g}, must be a whole number")

    def _check_num_points(self, num_points: int) -> None:
        if self.step is not None:
            self._refuse("points", "does not go with step, remove one of them")
        if not 2 <= num_points <= MOST_POINTS:
            self._refuse("points", f"is {num_points}, must be 2 to {MOST_POINTS}")

    @property
    def points(self) -> tuple[Value, ...]:
        """The values that one-at-a-time and grid run: `num_points` of them, or every step.

        Raises:
            SpaceError: the range is continuous and has no `num_points`.
        """
        count = self.num_points
        if count is None:
            if self.step is None:
                raise SpaceError(self.name, "needs points: how many values to take of the range")
            count = round((self.high - self.low) / self.step) + 1
        values: list[Value] = []
        for index in range(count):
            value = self.snap(self._interpolate(index, count - 1))
            if value not in values:
                values.append(value)
        return tuple(values)

    def _interpolate(self, index: int, last: int) -> float:
        if index in (0, last):  # the bounds exactly, free of rounding
            return self.high if index else self.low
        if self.is_log:
            low, high = math.log(self.low), math.log(self.high)
            return float(f"{math.exp(low + index / last * (high - low)):.6g}")
        low_exact = _exact(self.low)
        return float(f"{low_exact + (_exact(self.high) - low_exact) * index / last:.12g}")

    def snap(self, value: float) -> int | float:
        """Return the nearest allowed value: on the step, whole where integers are meant."""
        if self.step is not None:
            num_steps = round((value - self.low) / self.step)
            value = float(_exact(self.low) + num_steps * _exact(self.step))
        value = min(max(value, self.low), self.high)
        return round(value) if self.is_integer else float(value)

    def contains(self, value: Value) -> bool:
        """Tell whether `value` is within the bounds, and whole or on the step if these count."""
        if isinstance(value, bool | str) or not self.low <= value <= self.high:
            return False
        return math.isclose(self.snap(value), value, rel_tol=1e-9, abs_tol=1e-12)


Parameter = Choices | Range


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """The parameters that vary, in the order written."""

    parameters: tuple[Parameter, ...]
    """At least one, each name once."""

    def __post_init__(self) -> None:
        names = [parameter.name for parameter in self.parameters]
        if not names:
            raise ValueError("vary is empty, name at least one parameter")
        if len(set(names)) != len(names):
            raise ValueError("vary names a parameter twice, remove one")

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the order written."""
        return tuple(parameter.name for parameter in self.parameters)

    def __getitem__(self, name: str) -> Parameter:
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise KeyError(name)
