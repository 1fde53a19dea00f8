"""Parameters in Optuna's terms, for the ledger that stock Optuna reads.

Optuna takes a third of a second to import, which a process that only records does not pay: the
JSON form is written here, and a test holds it to Optuna's own. Lists of numbers become numeric
distributions that span the list, so that plots have an axis and importances an order.
"""

import json
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING

from hpo.domain.search_space import Choices, Parameter, Range, SearchSpace, Value, same_value
from hpo.domain.sweep import Sweep

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

LOG_RATIO = 100
"""A list of positive numbers that spans two decades or more is drawn on a logarithmic axis."""


def stored_space(sweep: Sweep) -> SearchSpace:
    """Return the search space, widened to hold the baseline and the `first` points.

    A list may leave the baseline's value out, yet Optuna wants every value of every trial inside
    its distribution, and the same distribution in every trial.
    """
    points = (sweep.baseline, *sweep.first)
    return SearchSpace(
        parameters=tuple(
            widen(
                parameter, [point[parameter.name] for point in points if parameter.name in point]
            )
            for parameter in sweep.space.parameters
        )
    )


def widen(parameter: Parameter, values: Iterable[Value]) -> Parameter:
    """Return a parameter that takes the given values too.

    A list gets them at its end. A range is stretched and becomes continuous, or whole if all
    values are whole.

    Raises:
        ValueError: a value is of another kind than the parameter's.
    """
    if isinstance(parameter, Choices):
        choices = list(parameter.values)
        for value in values:
            if not any(same_value(value, choice) for choice in choices):
                choices.append(value)
        return Choices(name=parameter.name, values=tuple(choices), is_ordered=parameter.is_ordered)
    numbers = [float(value) for value in values if not parameter.contains(value)]
    if not numbers:
        return parameter
    low = min(parameter.low, *numbers)
    return Range(
        name=parameter.name,
        low=low,
        high=max(parameter.high, *numbers),
        is_log=parameter.is_log and low > 0,
        is_integer=parameter.is_integer and all(number.is_integer() for number in numbers),
    )


def distribution_json(parameter: Parameter) -> str:
    """Return the parameter's distribution as JSON, as `optuna.distributions` writes it.

    Use the parameters of `stored_space`, which hold the baseline's values.
    """
    name, attributes = _form(parameter)
    return json.dumps({"name": name, "attributes": attributes})


def distribution_of(parameter: Parameter) -> "BaseDistribution":
    """Return the parameter's distribution as an object. Imports Optuna."""
    from optuna.distributions import json_to_distribution  # noqa: PLC0415  # a third of a second

    return json_to_distribution(distribution_json(parameter))


def internal_value(parameter: Parameter, value: Value) -> float:
    """Return a value as Optuna's tables hold it: the number, or the position of the choice.

    Raises:
        ValueError: the parameter's list does not hold the value.
    """
    if isinstance(parameter, Range) or parameter.is_numeric:
        return float(value)
    for position, choice in enumerate(parameter.values):
        if same_value(choice, value):
            return float(position)
    raise ValueError(
        f"{parameter.name} is {value}, which is not among the stored choices"
        f" {list(parameter.values)}; store the parameter of stored_space"
    )


def _form(parameter: Parameter) -> tuple[str, dict[str, object]]:
    """Return the name and the attributes of a distribution, in Optuna's order of keys."""
    if isinstance(parameter, Choices):
        if not parameter.is_numeric:
            return "CategoricalDistribution", {"choices": list(parameter.values)}
        numbers = [value for value in parameter.values if not isinstance(value, str)]
        low, high = min(numbers), max(numbers)
        is_log = low > 0 and high / low >= LOG_RATIO
        if all(isinstance(number, int) for number in numbers):
            return _integers(low, high, 1, is_log=is_log)
        return _floats(low, high, None, is_log=is_log)
    if parameter.is_integer:
        step = max(1, int(parameter.step or 1))
        return _integers(parameter.low, parameter.high, step, is_log=parameter.is_log)
    return _floats(parameter.low, parameter.high, parameter.step, is_log=parameter.is_log)


def _integers(
    low: float, high: float, step: int, *, is_log: bool
) -> tuple[str, dict[str, object]]:
    first, last = math.ceil(low), math.floor(high)
    last -= (last - first) % step
    return "IntDistribution", {"log": is_log, "step": step, "low": first, "high": last}


def _floats(
    low: float, high: float, step: float | None, *, is_log: bool
) -> tuple[str, dict[str, object]]:
    if step is not None:
        # Optuna lowers a bound that is not a multiple of the step in decimals, with a warning.
        start, width = Decimal(str(low)), Decimal(str(step))
        count = (Decimal(str(high)) - start) // width
        step, high = float(step), float(start + count * width)
    form = {"step": step, "low": float(low), "high": float(high), "log": is_log}
    return "FloatDistribution", {**form}
