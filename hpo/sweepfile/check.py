"""What must hold between the sections, and for every single point before anything trains."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from hpo.domain.search_space import Choices, Parameter, Params, Value, same_value
from hpo.domain.sweep import Grid, OneAtATime, Strategy
from hpo.domain.task import TaskSchema
from hpo.sweepfile.problem import Problems
from hpo.sweepfile.section import show
from hpo.sweepfile.vary import span

MOST_CONFIGURATIONS = 100_000
"""Of a plan. More would not end in a lifetime, and is a misplaced zero."""

_MOST_PAIR_VALUES = 30
"""Values of one parameter that are checked together with those of another."""

Located = tuple[str, Value]
"""A value and its key path."""


def check_plan(
    strategy: Strategy, baseline: Params, parameters: Sequence[Parameter], problems: Problems
) -> None:
    """Check that the strategy can be carried out from the baseline."""
    num_points = 1
    for parameter in parameters:
        path = f"vary.{parameter.name}"
        if parameter.name not in baseline:
            problems.add(path, f"has no baseline value, add {parameter.name} to baseline")
            continue
        has_plan = isinstance(strategy, OneAtATime | Grid)
        if not _is_finite(parameter):
            if has_plan:
                problems.add(
                    path,
                    f"is a range, of which {strategy.name} takes points, add points: 5",
                )
                continue
        elif has_plan:
            num_points *= len(parameter.points)
        _check_baseline(strategy, baseline[parameter.name], parameter, problems)
    if isinstance(strategy, Grid) and num_points > MOST_CONFIGURATIONS:
        problems.add(
            "vary",
            f"makes a grid of {num_points} configurations, at most {MOST_CONFIGURATIONS} are run,"
            " list fewer values or write strategy: tpe",
        )


def _is_finite(parameter: Parameter) -> bool:
    return isinstance(parameter, Choices) or not (
        parameter.num_points is None and parameter.step is None
    )


def _check_baseline(
    strategy: Strategy, value: Value, parameter: Parameter, problems: Problems
) -> None:
    name = parameter.name
    is_inside = parameter.contains(value)
    if isinstance(strategy, OneAtATime):
        others = [point for point in parameter.points if not same_value(point, value)]
        if not others:
            problems.add(
                f"vary.{name}",
                f"has only the baseline's value {show(value)}, so nothing varies, add others",
            )
        is_inside = isinstance(parameter, Choices) or (
            not isinstance(value, bool | str) and parameter.low <= value <= parameter.high
        )
    if not is_inside:
        problems.add(
            f"baseline.{name}",
            f"is {show(value)}, must be {span(parameter)}, because it is varied;"
            f" change it or vary.{name}",
        )


def check_points(
    strategy: Strategy,
    baseline: Params,
    parameters: Sequence[Parameter],
    task: TaskSchema,
    problems: Problems,
) -> None:
    """Check every value, and every pair of values where they can meet, against the task."""
    located = {parameter.name: list(_located(parameter, problems)) for parameter in parameters}
    refused: set[tuple[str, str]] = set()
    is_alone = isinstance(strategy, OneAtATime)
    for name, values in located.items():
        for path, value in values:
            for problem in task.problems({**baseline, name: value}):
                refused.add((name, str(value)))
                if problem.key == name:
                    problems.add(path, problem.message)
                else:
                    problems.add(
                        path,
                        f"is {show(value)}, with which baseline.{problem.key} {problem.message}",
                    )
        _check_is_read(name, baseline, [] if is_alone else parameters, task, problems)
    if not is_alone:
        sound = {
            name: [(p, v) for p, v in values if (name, str(v)) not in refused][:_MOST_PAIR_VALUES]
            for name, values in located.items()
        }
        _check_pairs(baseline, sound, task, problems)


def _located(parameter: Parameter, problems: Problems) -> Iterator[Located]:
    path = f"vary.{parameter.name}"
    if isinstance(parameter, Choices):
        below = f"{path}.choices" if f"{path}.choices" in problems.places else path
        yield from ((f"{below}[{index}]", value) for index, value in enumerate(parameter.values))
        return
    yield f"{path}.low", parameter.snap(parameter.low)
    yield f"{path}.high", parameter.snap(parameter.high)
    if _is_finite(parameter):
        yield from ((path, value) for value in parameter.points[1:-1])


def _check_is_read(
    name: str,
    baseline: Params,
    together: Sequence[Parameter],
    task: TaskSchema,
    problems: Problems,
) -> None:
    """Refuse to vary what the training would never read: such a study compares nothing.

    Args:
        name: the varied key.
        baseline: what holds where nothing varies.
        together: what varies at the same time.
        task: knows what is read.
        problems: gets what is wrong.
    """
    needs = task.keys[name].only_with
    if needs is None:
        return
    other, values = needs
    if any(same_value(baseline[other], value) for value in values):
        return
    if any(p.name == other and p.contains(value) for p in together for value in values):
        return
    problems.add(
        f"vary.{name}",
        f"is never read, because baseline.{other} is {show(baseline[other])},"
        f" write {other}: {show(values[0])} or remove it",
    )


def _check_pairs(
    baseline: Params,
    located: Mapping[str, Sequence[Located]],
    task: TaskSchema,
    problems: Problems,
) -> None:
    for (first, ones), (second, others) in itertools.combinations(located.items(), 2):
        for (_, one), (path, other) in itertools.product(ones, others):
            found = task.problems({**baseline, first: one, second: other})
            if found:
                problems.add(
                    path,
                    f"is {show(other)}, which does not go with {first} {show(one)}:"
                    f" {found[0].key} {found[0].message}",
                )
                break
