"""Random points of a search space: drawn from a seed alone, and never one that was seen."""

import itertools
import math
import random
from collections.abc import Callable, Iterator

from hpo.domain.search_space import Choices, Parameter, Params, Range, SearchSpace, Value
from hpo.search.seeds import derive_seed

NUM_REDRAWS = 20
"""Draws before the rest of a finite space is listed; with half of it left, 1 in 10**6 needs it."""


def num_values(parameter: Parameter) -> int | None:
    """Return how many values a parameter can take, or None when it is continuous."""
    if isinstance(parameter, Choices):
        return len(parameter.values)
    if parameter.step is not None:
        return round((parameter.high - parameter.low) / parameter.step) + 1
    if parameter.is_integer:
        return int(parameter.high) - int(parameter.low) + 1
    return None


def value_at(parameter: Parameter, index: int) -> Value:
    """Return a value of a parameter that is not continuous.

    Args:
        parameter: of `num_values` values.
        index: from 0, in the order of the list or from low to high.
    """
    if isinstance(parameter, Choices):
        return parameter.values[index]
    if parameter.step is not None:
        return parameter.snap(parameter.low + index * parameter.step)
    return int(parameter.low) + index


def shorten(parameter: Range, value: float) -> Value:
    """Round a drawn value of a continuous range to what people can read and type again.

    Six digits: of the value where ratios matter, of the range's width otherwise. A factor or a
    width that six digits cannot resolve stays as it is.
    """
    if parameter.is_log and parameter.high / parameter.low >= 2:
        return parameter.snap(float(f"{value:.6g}"))
    decimals = 6 - math.ceil(math.log10(parameter.high - parameter.low))
    return parameter.snap(round(value, decimals))


def draw_value(parameter: Parameter, generator: random.Random) -> Value:
    """Return a value, uniform over the list or range, or over its logarithm.

    Takes exactly one number from `generator`, by `random()`, the one method whose sequence Python
    promises to keep.
    """
    fraction = generator.random()
    if isinstance(parameter, Range) and parameter.is_log:
        # A whole number owns the half unit on either side, as in Optuna's IntDistribution.
        margin = 0.5 if parameter.is_integer else 0.0
        low, high = math.log(parameter.low - margin), math.log(parameter.high + margin)
        value = math.exp(low + fraction * (high - low))
        return parameter.snap(value) if parameter.is_integer else shorten(parameter, value)
    count = num_values(parameter)
    if count is not None:
        return value_at(parameter, int(fraction * count))
    assert isinstance(parameter, Range)  # noqa: S101  # a list has a count
    return shorten(parameter, parameter.low + fraction * (parameter.high - parameter.low))


def draw_point(space: SearchSpace, seed: int) -> Params:
    """Return a random point of the space, the same for the same seed."""
    generator = random.Random(seed)  # noqa: S311  # reproducible, not secret
    return {parameter.name: draw_value(parameter, generator) for parameter in space.parameters}


def draw_unseen(
    space: SearchSpace, is_seen: Callable[[Params], bool], study_seed: int, index: int
) -> Params | None:
    """Return the random point number `index` of a study, drawn again where it was seen.

    Args:
        space: where to draw.
        is_seen: tells whether a point is in the study already.
        study_seed: the sweep's `seed`.
        index: of the configuration within the study, so that a resumed study repeats no draw.

    Returns:
        The point, or None when the space holds no unseen one.
    """
    for salt in range(NUM_REDRAWS):
        point = draw_point(space, derive_seed(study_seed, index, f"point/{salt}"))
        if not is_seen(point):
            return point
    if any(num_values(parameter) is None for parameter in space.parameters):
        return None
    unseen = [point for point in _every_point(space) if not is_seen(point)]
    if not unseen:
        return None
    return unseen[derive_seed(study_seed, index, "point/rest") % len(unseen)]


def _every_point(space: SearchSpace) -> Iterator[Params]:
    """Yield each point of a space without continuous parameters."""
    axes = [
        [value_at(parameter, index) for index in range(num_values(parameter) or 0)]
        for parameter in space.parameters
    ]
    for values in itertools.product(*axes):
        yield dict(zip(space.names, values, strict=True))
