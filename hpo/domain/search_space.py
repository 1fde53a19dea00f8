"""What may vary, and over which values: `Choices`, `Range`, and the `SearchSpace` that holds them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

Value = bool | int | float | str
"""One value of one parameter. Always a plain JSON scalar."""

Params = Mapping[str, Value]
"""The values a trial got. A trial may lack keys that are inactive for it."""


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
            raise ValueError(f"{self.name} lists no values; write at least one")
        kinds = {kind_of(value) for value in self.values}
        if len(kinds) > 1:
            raise ValueError(
                f"{self.name} mixes {' and '.join(sorted(kinds))}; write values of one kind"
            )
        for index, value in enumerate(self.values):
            if any(same_value(value, other) for other in self.values[:index]):
                raise ValueError(f"{self.name} lists {value} twice; remove one")
        if not all(math.isfinite(v) for v in self.values if isinstance(v, float)):
            raise ValueError(f"{self.name} lists a value that is not finite")

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
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise ValueError(f"{self.name} has a bound that is not finite; write numbers")
        if self.low >= self.high:
            raise ValueError(f"{self.name}.low is {self.low:g}, must be below high ({self.high:g})")
        if self.is_log and self.low <= 0:
            raise ValueError(f"{self.name}.low is {self.low:g}, must be > 0 when log is true")
        if self.step is not None:
            self._check_step(self.step)
        if self.num_points is not None and self.num_points < 2:
            raise ValueError(f"{self.name}.points is {self.num_points}, must be 2 or more")

    def _check_step(self, step: float) -> None:
        if self.is_log:
            raise ValueError(f"{self.name} has both log and step; remove one")
        if step <= 0:
            raise ValueError(f"{self.name}.step is {step:g}, must be > 0")
        num_steps = (self.high - self.low) / step
        if abs(num_steps - round(num_steps)) > 1e-9 * max(1.0, num_steps):
            highest = self.low + math.floor(num_steps) * step
            raise ValueError(
                f"{self.name}.step {step:g} does not divide the range {self.low:g} to"
                f" {self.high:g}; write high: {highest:g} or another step"
            )

    @property
    def points(self) -> tuple[Value, ...]:
        """The values that one-at-a-time and grid run: `num_points` of them, or every step.

        Raises:
            ValueError: the range is continuous and has no `num_points`.
        """
        count = self.num_points
        if count is None:
            if self.step is None:
                raise ValueError(f"{self.name} needs points: how many values to take of the range")
            count = round((self.high - self.low) / self.step) + 1
        values: list[Value] = []
        for index in range(count):
            value = self.snap(self._interpolate(index / (count - 1)))
            if value not in values:
                values.append(value)
        return tuple(values)

    def _interpolate(self, fraction: float) -> float:
        if fraction in (0.0, 1.0):  # the bounds exactly, free of rounding
            return self.high if fraction else self.low
        if self.is_log:
            return float(f"{math.exp(self._mix(math.log(self.low), math.log(self.high), fraction)):.6g}")
        return float(f"{self._mix(self.low, self.high, fraction):.12g}")

    @staticmethod
    def _mix(low: float, high: float, fraction: float) -> float:
        return low + fraction * (high - low)

    def snap(self, value: float) -> Value:
        """Return the nearest allowed value: on the step, whole where integers are meant."""
        if self.step is not None:
            value = float(f"{self.low + round((value - self.low) / self.step) * self.step:.12g}")
        value = min(max(value, self.low), self.high)
        return round(value) if self.is_integer else float(value)

    def contains(self, value: Value) -> bool:
        """Tell whether `value` is a number within the bounds."""
        return kind_of(value) == "number" and self.low <= float(value) <= self.high


Parameter = Choices | Range


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """The parameters that vary, in the order written."""

    parameters: tuple[Parameter, ...]
    """At least one, each name once."""

    def __post_init__(self) -> None:
        names = [parameter.name for parameter in self.parameters]
        if not names:
            raise ValueError("vary is empty; name at least one parameter")
        if len(set(names)) != len(names):
            raise ValueError("vary names a parameter twice; remove one")

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the order written."""
        return tuple(parameter.name for parameter in self.parameters)

    def __getitem__(self, name: str) -> Parameter:
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise KeyError(name)
