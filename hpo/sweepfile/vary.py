"""The `baseline` and `vary` sections: the control configuration and what is varied."""

from collections.abc import Iterator, Mapping

from hpo.domain.search_space import Choices, Parameter, Params, Range, SpaceError, Value
from hpo.domain.task import ConfigKey, TaskSchema
from hpo.errors import did_you_mean
from hpo.sweepfile.document import ListNode, MappingNode, Node, ScalarNode
from hpo.sweepfile.problem import Problems
from hpo.sweepfile.section import Section, describe, read_number, read_value, show

DECIDES_DATA = frozenset({"data", "data_root", "download", "val_fraction", "test_fraction"})
"""Keys that decide what is trained and judged on: trials that differ in one are incomparable."""


def read_baseline(section: Section, task: TaskSchema | None) -> Params | None:
    """Return the complete control configuration; None, and problems, where it has none."""
    keys = task.keys if task is not None else {}
    values: dict[str, Value] = {}
    is_sound = True
    for key, node in section.node.entries.items():
        path, value = section.path_of(key), None
        if task is not None and key not in keys:
            section.problems.add(path, _unknown_key(key, task))
        else:
            value = read_value(node, path, keys.get(key), section.problems)
        if value is None:
            is_sound = False
        else:
            values[key] = value
    if task is None:
        return values if is_sound else None
    missing = [key for key in keys.values() if key.default is None and key.name not in values]
    for lacking in missing:
        if lacking.name not in section.node.entries:
            section.problems.add(section.path, f"lacks {lacking.name}, add {_hint(lacking)}")
    if missing or not is_sound:
        return None
    completed = dict(task.complete(values))
    problems = task.problems(completed)
    for problem in problems:
        section.problems.add(f"{section.path}.{problem.key}", problem.message)
    return None if problems else completed


def _hint(key: ConfigKey) -> str:
    if key.choices is None:
        return f"{key.name}: {key.doc}"
    return f"{key.name}: {' | '.join(show(choice) for choice in key.choices)}"


def _unknown_key(key: str, task: TaskSchema) -> str:
    near = did_you_mean(key, list(task.keys))
    return f"is not a key of the task{near or ', write one of ' + ', '.join(task.keys)}"


def flatten_baseline(root: MappingNode, problems: Problems) -> MappingNode:
    """Return the document with nested keys of `baseline` written with dots."""
    baseline = root.entries.get("baseline")
    if not isinstance(baseline, MappingNode):
        return root
    flat: dict[str, Node] = {}
    for key, node in _flat(baseline):
        if key in flat:
            problems.add_at(
                node.place,
                f"baseline.{key}",
                f"is written twice, first at {flat[key].place}, remove one",
            )
        flat.setdefault(key, node)
    flattened = MappingNode(place=baseline.place, entries=flat)
    return MappingNode(place=root.place, entries={**root.entries, "baseline": flattened})


def _flat(node: MappingNode, prefix: str = "") -> Iterator[tuple[str, Node]]:
    for key, value in node.entries.items():
        if isinstance(value, MappingNode) and value.entries:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def read_parameters(section: Section, task: TaskSchema | None) -> list[Parameter]:
    """Return the varied parameters that can be read, in the order written."""
    if not section.node.entries:
        section.problems.add(section.path, "is empty, name at least one key of the baseline")
    keys: Mapping[str, ConfigKey] = task.keys if task is not None else {}
    found: list[Parameter] = []
    for name, node in section.node.entries.items():
        path = section.path_of(name)
        if task is not None and name not in keys:
            section.problems.add(path, _unknown_key(name, task))
        elif name in DECIDES_DATA and task is not None:
            section.problems.add(
                path,
                "cannot vary, values on different data are not comparable, write one study each",
            )
        else:
            parameter = _parameter(name, section, node, keys.get(name))
            if parameter is not None:
                found.append(parameter)
    return found


def _parameter(name: str, section: Section, node: Node, key: ConfigKey | None) -> Parameter | None:
    path, problems = section.path_of(name), section.problems
    if isinstance(node, ListNode):
        return _choices(name, path, node, key, problems)
    if isinstance(node, ScalarNode):
        shown = show(node.value) if node.value is not None else "value, other value"
        problems.add(path, f"{describe(node)}, write a list: [{shown[:60]}], or a range")
        return None
    below = Section(node, path, problems)
    if "choices" in node.entries:
        below.allow("vary", ("choices", "ordered"))
        listed = node.entries["choices"]
        if not isinstance(listed, ListNode):
            problems.add(f"{path}.choices", f"{describe(listed)}, write a list of values")
            return None
        is_ordered = below.flag("ordered")
        choices = _choices(
            name, f"{path}.choices", listed, key, problems, is_ordered=is_ordered is True
        )
        if choices is not None and choices.is_numeric and is_ordered is False:
            problems.add(below.path_of("ordered"), "is false, but numbers are ordered, remove it")
        return choices
    below.allow("vary", ("low", "high", "log", "step", "points", "integer"))
    return _range(name, below, key)


def _choices(
    name: str,
    path: str,
    node: ListNode,
    key: ConfigKey | None,
    problems: Problems,
    is_ordered: bool = False,  # noqa: FBT001, FBT002  # private, one caller names it
) -> Choices | None:
    values = [
        read_value(item, f"{path}[{index}]", key, problems)
        for index, item in enumerate(node.items)
    ]
    sound = tuple(value for value in values if value is not None)
    if len(sound) < len(values):
        return None
    try:
        return Choices(name=name, values=sound, is_ordered=is_ordered)
    except SpaceError as error:
        problems.add(path if error.index is None else f"{path}[{error.index}]", error.message)
        return None


def _range(name: str, section: Section, key: ConfigKey | None) -> Range | None:
    path, problems = section.path, section.problems
    if key is not None and key.kind not in ("int", "float"):
        problems.add(path, f"is a range, but {name} takes {key.kind}, write a list of values")
        return None
    bounds: dict[str, int | float] = {}
    for part in ("low", "high", "step"):
        node = section.get(part)
        if node is not None:
            number = read_number(node, section.path_of(part), problems)
            if number is None:
                return None
            bounds[part] = number
    for part in ("low", "high"):
        if part not in bounds:
            if part not in section.node.entries:
                problems.add(
                    path, f"lacks {part}, write {{low: .., high: ..}} or a list of values"
                )
            return None
    is_log = section.flag("log") or False
    num_points = section.integer("points", low=2, high=1000)
    is_integer = _is_integer(section, key, bounds)
    if not is_integer:
        bounds = {part: float(number) for part, number in bounds.items()}
    try:
        return Range(
            name=name,
            low=bounds["low"],
            high=bounds["high"],
            is_log=is_log,
            step=bounds.get("step"),
            is_integer=is_integer,
            num_points=num_points,
        )
    except SpaceError as error:
        problems.add(f"{path}.{error.part}" if error.part else path, error.message)
        return None


def _is_integer(
    section: Section, key: ConfigKey | None, bounds: Mapping[str, int | float]
) -> bool:
    written = section.flag("integer")
    if key is None:
        return all(isinstance(n, int) for n in bounds.values()) if written is None else written
    is_integer = key.kind == "int"
    if written is not None and written is not is_integer:
        kind = "a whole number" if is_integer else "not a whole number"
        section.problems.add(
            f"{section.path}.integer", f"does not fit, {key.name} is {kind}, remove it"
        )
    return is_integer


def span(parameter: Parameter) -> str:
    """Return what a parameter may be, in words."""
    if isinstance(parameter, Choices):
        return "one of " + ", ".join(show(value) for value in parameter.values)
    step = f" in steps of {parameter.step:g}" if parameter.step is not None else ""
    whole = "a whole number " if parameter.is_integer else ""
    return f"{whole}from {parameter.low:.12g} to {parameter.high:.12g}{step}"
