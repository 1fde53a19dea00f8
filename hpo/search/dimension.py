"""How a parameter looks to a model: a number line, a row of positions, or names without order."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpo.domain.search_space import Choices, Parameter, Range, Value, same_value
from hpo.search.point import num_values, shorten, value_at

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """Translates the values of one parameter to a model's coordinates and back.

    Whatever has an order and a finite number of values is its position in that order: a list of
    numbers by size, an ordered list as written, a stepped range from low to high. So the model
    proposes nothing between two listed values, and a list spread over decades is evenly spaced.
    """

    parameter: Parameter

    @property
    def is_position(self) -> bool:
        """Whether the coordinate is a position in an order."""
        if isinstance(self.parameter, Choices):
            return self.parameter.is_ordered or self.parameter.is_numeric
        return self.parameter.step is not None

    def distribution(self) -> "BaseDistribution":
        """Return the distribution of the coordinate, as Optuna knows it."""
        from optuna.distributions import (  # noqa: PLC0415  # a third of a second
            CategoricalDistribution,
            FloatDistribution,
            IntDistribution,
        )

        parameter = self.parameter
        if self.is_position:
            return IntDistribution(0, (num_values(parameter) or 1) - 1)
        if isinstance(parameter, Choices):
            return CategoricalDistribution(parameter.values)
        if parameter.is_integer:
            return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.is_log)
        return FloatDistribution(parameter.low, parameter.high, log=parameter.is_log)

    def encode(self, value: Value) -> Value | None:
        """Return the coordinate of a value, or None when the parameter does not take it."""
        parameter = self.parameter
        if not parameter.contains(value):
            return None
        if isinstance(parameter, Choices):
            ordered = self._ordered(parameter)
            position = next(i for i, choice in enumerate(ordered) if same_value(choice, value))
            return position if self.is_position else ordered[position]
        if parameter.step is not None:
            return round((float(value) - parameter.low) / parameter.step)
        return int(value) if parameter.is_integer else float(value)

    def decode(self, coordinate: Value) -> Value:
        """Return the value at a coordinate."""
        parameter = self.parameter
        if isinstance(parameter, Choices):
            return self._ordered(parameter)[int(coordinate)] if self.is_position else coordinate
        if self.is_position:
            return value_at(parameter, int(coordinate))
        return self._number(parameter, float(coordinate))

    @staticmethod
    def _number(parameter: Range, number: float) -> Value:
        return parameter.snap(number) if parameter.is_integer else shorten(parameter, number)

    @staticmethod
    def _ordered(parameter: Choices) -> tuple[Value, ...]:
        return tuple(sorted(parameter.values)) if parameter.is_numeric else parameter.values
