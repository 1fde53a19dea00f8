"""`Sweep` -> a document in the sweep file's own format."""

import dataclasses
from typing import Any

from hpo.domain.search_space import Choices, Parameter
from hpo.domain.sweep import (
    Budget,
    Execution,
    Pruner,
    RandomSearch,
    Strategy,
    Sweep,
    Tpe,
    Tracking,
)

Document = dict[str, Any]
"""Plain JSON values."""


def dump_sweep(sweep: Sweep) -> Document:
    """Return a sweep as a document of plain JSON values, with every default written out.

    `parse_sweep(json.dumps(dump_sweep(sweep)), ...)` gives an equal sweep.
    """
    objective = sweep.objective
    document: Document = {
        "study": sweep.study,
        "description": sweep.description,
        "objective": {
            "metric": objective.metric,
            "direction": objective.direction.value,
            "at": objective.at.value,
        },
        "strategy": _named(sweep.strategy),
        "baseline": dict(sweep.baseline),
        "vary": {
            parameter.name: dump_parameter(parameter) for parameter in sweep.space.parameters
        },
        "first": [dict(point) for point in sweep.first],
        "replicates": sweep.replicates,
        "seed": sweep.seed,
        "pruner": _named(sweep.pruner),
        "budget": _budget(sweep.budget, sweep),
        "execution": _execution(sweep.execution),
        "tracking": _tracking(sweep.tracking),
    }
    return {
        key: value
        for key, value in document.items()
        if value or key not in ("description", "first")
    }


def dump_parameter(parameter: Parameter) -> Any:
    """Return what stands below a varied key."""
    if isinstance(parameter, Choices):
        values = list(parameter.values)
        return {"choices": values, "ordered": True} if parameter.is_ordered else values
    document: Document = {"low": parameter.low, "high": parameter.high, "log": parameter.is_log}
    if parameter.step is not None:
        document["step"] = parameter.step
    if parameter.num_points is not None:
        document["points"] = parameter.num_points
    document["integer"] = parameter.is_integer
    return document


def _named(choice: Strategy | Pruner) -> Document:
    return {"name": choice.name, **dataclasses.asdict(choice)}


def _budget(budget: Budget, sweep: Sweep) -> Document:
    document: Document = {}
    if budget.num_trials is not None:
        document["trials"] = budget.num_trials
    elif isinstance(sweep.strategy, RandomSearch | Tpe):
        document["trials"] = "unlimited"
    if budget.hours is not None:
        document["hours"] = budget.hours
    if budget.until is not None:
        document["until"] = {sweep.objective.metric: budget.until}
    return document


def _execution(execution: Execution) -> Document:
    devices = execution.devices
    return {
        "workers": "auto" if execution.workers is None else execution.workers,
        "devices": "auto" if devices is None else list(devices),
    }


def _tracking(tracking: Tracking) -> Document:
    document: Document = {"uri": "default" if tracking.uri is None else tracking.uri}
    if tracking.experiment is not None:
        document["experiment"] = tracking.experiment
    return document
