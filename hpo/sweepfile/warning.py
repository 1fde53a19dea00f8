"""What weakens a study without making it wrong."""

import math
from collections.abc import Iterator, Mapping

from hpo.domain.search_space import Range, same_value
from hpo.domain.sweep import (
    Grid,
    Hyperband,
    NoPruning,
    OneAtATime,
    SuccessiveHalving,
    Sweep,
    Tpe,
)
from hpo.domain.task import TaskSchema
from hpo.sweepfile.problem import Place, Problems
from hpo.sweepfile.section import show


def sweep_warnings(
    sweep: Sweep, task: TaskSchema | None, places: Mapping[str, Place] | None = None
) -> list[str]:
    """Return what weakens a study: `file:line: key: what, and what to do about it`.

    Args:
        sweep: the study.
        task: what is trained; None leaves out what only it can tell.
        places: key paths and where they are written; None names only the study.
    """
    problems = Problems(sweep.study, places or {"": Place(sweep.study)})
    for path, message in _warnings(sweep, task):
        problems.add(path, message)
    return [f"{place}: {text}" for place, text in problems.found]


def _warnings(sweep: Sweep, task: TaskSchema | None) -> Iterator[tuple[str, str]]:
    yield from _about_space(sweep)
    yield from _about_plan(sweep)
    yield from _about_pruning(sweep)
    metric = sweep.objective.metric
    if metric.startswith("train_") and (task is None or "val" + metric[5:] in task.metrics):
        yield (
            "objective",
            f"is {metric}, which rewards memorising the training data, prefer val{metric[5:]}",
        )


def _about_space(sweep: Sweep) -> Iterator[tuple[str, str]]:
    names = sweep.space.names
    is_alone = isinstance(sweep.strategy, OneAtATime)
    if "batch_size" in names and "lr" in sweep.baseline and (is_alone or "lr" not in names):
        lr = show(sweep.baseline["lr"])
        yield (
            "vary.batch_size",
            (
                f"is compared at the one learning rate {lr}, which suits only some batch sizes;"
                " for the best of each, vary lr too and write strategy: grid or tpe"
            ),
        )
    if "epochs" in names:
        yield (
            "vary.epochs",
            "makes trials of unequal length, so a better value may only mean longer training",
        )
    for parameter in sweep.space.parameters:
        path = f"vary.{parameter.name}"
        if not isinstance(parameter, Range):
            continue
        if parameter.num_points is not None and len(parameter.points) < parameter.num_points:
            yield (
                f"{path}.points",
                f"is {parameter.num_points}, but only {len(parameter.points)} values differ",
            )


def _about_plan(sweep: Sweep) -> Iterator[tuple[str, str]]:
    num_configurations = num_planned(sweep)
    num_trials = sweep.budget.num_trials
    if num_configurations is not None:
        planned = num_configurations * sweep.replicates
        if num_trials is not None and num_trials < planned:
            yield (
                "budget.trials",
                f"is {num_trials}, which ends the plan of {planned} trials early",
            )
        if sweep.replicates == 1:
            yield (
                "replicates",
                (
                    "is 1, so no interval can be given and noise may pass for an effect,"
                    " write replicates: 3"
                ),
            )
    if isinstance(sweep.strategy, OneAtATime):
        for parameter in sweep.space.parameters:
            value = sweep.baseline[parameter.name]
            others = [point for point in parameter.points if not same_value(point, value)]
            if len(others) < 2 and not isinstance(value, bool | str):
                yield (
                    f"vary.{parameter.name}",
                    "compares two values, so where the best lies cannot be judged, add a third",
                )
    elif isinstance(sweep.strategy, Tpe) and num_trials is not None:
        num_searched = num_trials // sweep.replicates
        if num_searched <= sweep.strategy.startup_trials:
            yield (
                "budget.trials",
                (
                    f"gives {num_searched} configurations, all of them random draws"
                    f" (startup_trials is {sweep.strategy.startup_trials}), write more trials"
                ),
            )


def _about_pruning(sweep: Sweep) -> Iterator[tuple[str, str]]:
    pruner = sweep.pruner
    if isinstance(sweep.strategy, OneAtATime) and not isinstance(pruner, NoPruning):
        yield (
            "pruner",
            (
                f"is {pruner.name}, but a pruned trial cannot be compared with the baseline,"
                " write pruner: none"
            ),
        )
    epochs = sweep.baseline.get("epochs")
    if (
        isinstance(pruner, SuccessiveHalving | Hyperband)
        and isinstance(epochs, int)
        and pruner.min_epochs >= epochs
        and "epochs" not in sweep.space.names
    ):
        yield (
            "pruner",
            (
                f"never stops a trial, because min_epochs is {pruner.min_epochs} and trials train"
                f" {epochs} epochs, write a smaller min_epochs"
            ),
        )


def num_planned(sweep: Sweep) -> int | None:
    """Return how many configurations a plan has, or None for a search without a plan."""
    parameters = sweep.space.parameters
    if isinstance(sweep.strategy, Grid):
        return math.prod(len(parameter.points) for parameter in parameters)
    if isinstance(sweep.strategy, OneAtATime):
        return 1 + sum(
            not same_value(point, sweep.baseline[parameter.name])
            for parameter in parameters
            for point in parameter.points
        )
    return None
