"""How a study is searched: the `objective`, `strategy`, `pruner`, `budget` sections and more."""

import dataclasses
import re
from collections.abc import Mapping

from hpo.domain.objective import At, Direction, Objective
from hpo.domain.sweep import (
    Budget,
    Execution,
    Grid,
    Hyperband,
    MedianPruning,
    NoPruning,
    OneAtATime,
    Pruner,
    RandomSearch,
    Strategy,
    SuccessiveHalving,
    Tpe,
    Tracking,
)
from hpo.domain.task import TaskSchema
from hpo.sweepfile.document import ListNode, MappingNode, ScalarNode
from hpo.sweepfile.key import (
    DEFAULT_CONFIGURATIONS,
    LATER_STRATEGIES,
    MOST_TRIALS,
    MOST_WORKERS,
)
from hpo.sweepfile.section import (
    Section,
    describe,
    not_one_of,
    read_number,
    read_text,
    show,
)

STRATEGIES: Mapping[str, type[Strategy]] = {
    kind.name: kind for kind in (OneAtATime, Grid, RandomSearch, Tpe)
}
PRUNERS: Mapping[str, type[Pruner]] = {
    kind.name: kind for kind in (NoPruning, MedianPruning, SuccessiveHalving, Hyperband)
}

_LEAST_OPTION = {
    "startup_trials": 1,
    "warmup_epochs": 0,
    "min_epochs": 1,
    "reduction_factor": 2,
}
_MOST_OPTION = 1_000_000

_LARGE_IS_GOOD = frozenset({"accuracy", "acc", "f1", "auc", "auroc", "precision", "recall", "iou"})
_SMALL_IS_GOOD = frozenset({"loss", "error", "rmse", "mse", "mae", "perplexity", "s"})

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(d|h|min|s)", re.ASCII)
_HOURS = {"d": 24.0, "h": 1.0, "min": 1 / 60, "s": 1 / 3600}


def direction_of(metric: str) -> Direction | None:
    """Return the direction in which a metric improves, as far as its name tells."""
    words = set(re.split(r"[^a-z0-9]+", metric.lower()))
    if words & _LARGE_IS_GOOD:
        return Direction.MAXIMIZE
    return Direction.MINIMIZE if words & _SMALL_IS_GOOD else None


def read_objective(top: Section, task: TaskSchema | None) -> Objective | None:
    """Return the objective; None, and problems, where it is wrong."""
    node, problems = top.node.entries.get("objective"), top.problems
    if node is None:
        node = ScalarNode(place=top.node.place, text="val_loss", value="val_loss")
    if isinstance(node, ListNode):
        problems.add("objective", "is a list, several objectives are not supported yet, write one")
        return None
    if isinstance(node, ScalarNode):
        node = MappingNode(place=node.place, entries={"metric": node})
    section = Section(node, "objective", problems)
    section.allow("objective")
    metric = section.text("metric")
    if "metric" not in node.entries:
        problems.add("objective", "lacks metric, write {metric: val_loss}")
    at = section.word("at", [at.value for at in At])
    written = section.word("direction", [direction.value for direction in Direction])
    if metric is None:
        return None
    if task is not None and metric not in task.metrics:
        problems.add("objective.metric", not_one_of(metric, task.metrics))
        return None
    natural = direction_of(metric)
    if written is None:
        if natural is None and "direction" not in node.entries:
            problems.add(
                "objective", f"lacks direction, write {{metric: {metric}, direction: minimize}}"
            )
        direction = natural or Direction.MINIMIZE
    else:
        direction = Direction(written)
        if natural is not None and direction is not natural:
            problems.add(
                "objective.direction",
                f"is {direction}, which would look for the worst {metric}, write {natural}",
            )
    return Objective(metric=metric, direction=direction, at=At(at) if at else At.BEST)


def read_strategy(top: Section) -> Strategy | None:
    """Return the strategy; None, and problems, where it is wrong."""
    name, section = _name_and_options(top, "strategy", OneAtATime.name)
    if name is None:
        return None
    if name in LATER_STRATEGIES:
        top.problems.add(
            _name_path(section, "strategy"),
            f"{name} is not supported yet, write one of {', '.join(STRATEGIES)}",
        )
        return None
    kind = STRATEGIES.get(name)
    if kind is None:
        top.problems.add(_name_path(section, "strategy"), not_one_of(name, list(STRATEGIES)))
        return None
    return kind(**_options(kind, section, "strategy"))


def read_pruner(top: Section, strategy: Strategy | None) -> Pruner:
    """Return the pruner; that of the strategy where none is written or it is wrong."""
    plans_all = strategy is None or isinstance(strategy, OneAtATime | Grid)
    default = NoPruning.name if plans_all else MedianPruning.name
    name, section = _name_and_options(top, "pruner", default)
    kind = PRUNERS.get(name or default, NoPruning)
    if name is not None and name not in PRUNERS:
        top.problems.add(_name_path(section, "pruner"), not_one_of(name, list(PRUNERS)))
        return NoPruning()
    return kind(**_options(kind, section, "pruner"))


def _name_path(section: Section | None, path: str) -> str:
    return path if section is None else f"{path}.name"


def _name_and_options(top: Section, key: str, default: str) -> tuple[str | None, Section | None]:
    """Read `key: name` or `key: {name: .., option: ..}`."""
    if key not in top.node.entries:
        return default, None
    node = top.get(key)
    if node is None:
        return None, None
    if not isinstance(node, MappingNode):
        return read_text(node, key, top.problems), None
    section = Section(node, key, top.problems)
    if "name" not in node.entries:
        top.problems.add(key, f"lacks name, write {{name: {default}}}")
    return section.text("name"), section


def _options(
    kind: type[Strategy] | type[Pruner], section: Section | None, path: str
) -> dict[str, int]:
    names = [field.name for field in dataclasses.fields(kind)]
    if section is None:
        return {}
    section.allow(path, ("name", *names))
    options = {
        name: section.integer(name, low=_LEAST_OPTION[name], high=_MOST_OPTION) for name in names
    }
    return {name: value for name, value in options.items() if value is not None}


def read_budget(
    top: Section, strategy: Strategy | None, objective: Objective | None, replicates: int
) -> Budget:
    """Return the budget, with the default number of trials of a search that has no plan."""
    section = top.section("budget")
    num_trials = hours = until = None
    is_unlimited = False
    if section is not None:
        section.allow("budget")
        is_unlimited, num_trials = _read_trials(section, replicates)
        hours = _read_hours(section)
        until = _read_until(section, objective)
    is_open = isinstance(strategy, RandomSearch | Tpe) and not is_unlimited
    if is_open and num_trials is None and hours is None:
        num_trials = DEFAULT_CONFIGURATIONS * replicates
    return Budget(num_trials=num_trials, hours=hours, until=until)


def _read_trials(section: Section, replicates: int) -> tuple[bool, int | None]:
    node = section.node.entries.get("trials")
    if isinstance(node, ScalarNode) and node.value == "unlimited":
        return True, None
    num_trials = section.integer("trials", low=1, high=MOST_TRIALS)
    if num_trials is not None and num_trials < replicates:
        section.problems.add(
            "budget.trials",
            f"is {num_trials}, must be at least replicates ({replicates}), because it counts"
            " configurations times replicates",
        )
    return False, num_trials


def _read_hours(section: Section) -> float | None:
    node, path = section.get("hours"), section.path_of("hours")
    if node is None:
        return None
    hours: float | None
    if isinstance(node, ScalarNode) and isinstance(node.value, str):
        hours = _duration_hours(node.value)
        if hours is None:
            section.problems.add(path, f"{describe(node)}, write hours, or 30min, 2h, 1h30min")
            return None
    else:
        number = read_number(node, path, section.problems)
        hours = None if number is None else float(number)
    if hours is not None and not 0 < hours <= 1e6:
        section.problems.add(path, f"is {show(hours)}, must be above 0 and at most 1e6")
        return None
    return hours


def _duration_hours(text: str) -> float | None:
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        return None
    return sum(float(number) * _HOURS[unit] for number, unit in parts)


def _read_until(section: Section, objective: Objective | None) -> float | None:
    below = section.section("until")
    if below is None or objective is None:
        return None
    metrics = list(below.node.entries)
    if metrics != [objective.metric]:
        section.problems.add(
            "budget.until",
            f"must name the objective's metric alone, write {{{objective.metric}: 0.05}}",
        )
        return None
    value = below.number(objective.metric)
    return None if value is None else float(value)


def read_execution(top: Section) -> Execution:
    """Return where trials run."""
    section = top.section("execution")
    if section is None:
        return Execution()
    section.allow("execution")
    workers = None
    node = section.node.entries.get("workers")
    if not (isinstance(node, ScalarNode) and node.value == "auto"):
        workers = section.integer("workers", low=1, high=MOST_WORKERS)
    return Execution(workers=workers, devices=_read_devices(section))


def _read_devices(section: Section) -> tuple[str, ...] | None:
    node, path = section.get("devices"), section.path_of("devices")
    if node is None or (isinstance(node, ScalarNode) and node.value == "auto"):
        return None
    items = node.items if isinstance(node, ListNode) else (node,)
    devices = [_device(item.text if isinstance(item, ScalarNode) else "") for item in items]
    sound = [device for device in devices if device is not None]
    if not sound or len(sound) < len(devices):
        section.problems.add(
            path, "must be auto, cpu, mps, cuda:0 or a list of GPUs such as [0, 1]"
        )
        return None
    if len(set(sound)) < len(sound):
        section.problems.add(path, "names a device twice, remove one")
        return None
    return tuple(sound)


def _device(text: str) -> str | None:
    if text in ("cpu", "mps"):
        return text
    number = text.removeprefix("cuda:")
    return f"cuda:{int(number)}" if re.fullmatch(r"[0-9]{1,3}", number, re.ASCII) else None


def read_tracking(top: Section) -> Tracking:
    """Return where MLflow records go."""
    section = top.section("tracking")
    if section is None:
        return Tracking()
    section.allow("tracking")
    uri = section.text("uri")
    if uri is not None and re.search(r"://[^/@]*:[^/@]*@", uri):
        section.problems.add(
            "tracking.uri",
            "has a password in it, which would be stored with the study, remove it and set"
            " MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD in the environment",
        )
        uri = None
    experiment = section.text("experiment")
    if experiment is not None and len(experiment) > 250:
        section.problems.add("tracking.experiment", "is too long, write at most 250 characters")
    return Tracking(uri=None if uri == "default" else uri, experiment=experiment)
