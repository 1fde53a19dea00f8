"""The `first` section: points to run before the strategy's own, written out or in a CSV file."""

import csv
from collections.abc import Sequence
from pathlib import Path

from hpo.domain.search_space import Parameter, Params, Value
from hpo.domain.sweep import Grid, OneAtATime, Strategy
from hpo.domain.task import TaskSchema
from hpo.errors import did_you_mean
from hpo.sweepfile.document import ListNode, MappingNode, Node, ScalarNode
from hpo.sweepfile.problem import Place, Problems
from hpo.sweepfile.scalar import resolve
from hpo.sweepfile.section import Section, describe, read_value, show
from hpo.sweepfile.vary import span

MOST_BYTES = 1_000_000
"""Of a CSV file of points."""


def read_first(
    top: Section,
    parameters: Sequence[Parameter],
    strategy: Strategy | None,
    task: TaskSchema | None,
    folder: Path,
) -> tuple[Params, ...]:
    """Return the points to run first.

    Args:
        top: the file.
        parameters: what is varied.
        strategy: only those without a plan take such points.
        task: types the values.
        folder: where a CSV file's name starts from.
    """
    node, problems = top.get("first"), top.problems
    if node is None:
        return ()
    if isinstance(strategy, OneAtATime | Grid):
        problems.add(
            "first", f"is for random and tpe, {strategy.name} has a plan of its own, remove it"
        )
        return ()
    if isinstance(node, ListNode):
        points: list[tuple[str, Node]] = [
            (f"first[{index}]", item) for index, item in enumerate(node.items)
        ]
    elif isinstance(node, ScalarNode) and isinstance(node.value, str):
        rows = _read_csv(folder / node.value, node.value, problems)
        points = [(f"first[{index}]", row) for index, row in enumerate(rows)]
        places = {path: row.place for path, row in points}
        problems.places = {**problems.places, **places}
    else:
        problems.add(
            "first", f"{describe(node)}, write a list of points or the name of a CSV file"
        )
        return ()
    by_name = {parameter.name: parameter for parameter in parameters}
    found: list[Params] = []
    for path, item in points:
        point = _point(item, path, by_name, task, problems)
        if point in found:
            problems.add(path, "repeats an earlier point, remove it")
        elif point:
            found.append(point)
    return tuple(found)


def _point(
    node: Node,
    path: str,
    parameters: dict[str, Parameter],
    task: TaskSchema | None,
    problems: Problems,
) -> Params:
    if not isinstance(node, MappingNode) or not node.entries:
        problems.add(path, f"{describe(node)}, write keys and values: {{lr: 1e-3}}")
        return {}
    point: dict[str, Value] = {}
    for name, item in node.entries.items():
        item_path = f"{path}.{name}"
        if name not in parameters:
            near = did_you_mean(name, list(parameters))
            problems.add(
                item_path, f"is not varied{near or ', write one of ' + ', '.join(parameters)}"
            )
            continue
        key = task.keys.get(name) if task is not None else None
        value = read_value(item, item_path, key, problems)
        if value is None:
            continue
        if not parameters[name].contains(value):
            problems.add(item_path, f"is {show(value)}, must be {span(parameters[name])}")
        point[name] = value
    return point


def _read_csv(path: Path, name: str, problems: Problems) -> list[MappingNode]:
    try:
        if not path.is_file():
            problems.add(
                "first", f"names {name!a}, which is no file beside the sweep, check the name"
            )
            return []
        if path.stat().st_size > MOST_BYTES:
            problems.add("first", f"names {name!a}, which is larger than 1 MB, write fewer points")
            return []
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        problems.add(
            "first", f"names {name!a}, which cannot be read as UTF-8 text, check the file"
        )
        return []
    reader = csv.reader(text.splitlines())
    try:
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        problems.add_at(Place(name, reader.line_num), "", f"is not CSV ({error}), check quotes")
        return []
    if len(rows) < 2:
        problems.add_at(
            Place(name, 1), "", "has no points, write a line of keys and lines of values"
        )
        return []
    header = [cell.strip() for cell in rows[0][1]]
    if len(set(header)) < len(header):
        problems.add_at(Place(name, rows[0][0]), "", "names a key twice, remove one")
    return [_row(header, row, Place(name, line), problems) for line, row in rows[1:]]


def _row(header: list[str], row: list[str], place: Place, problems: Problems) -> MappingNode:
    if len(row) != len(header):
        problems.add_at(
            place, "", f"has {len(row)} values, must have {len(header)}, one for each key"
        )
    entries: dict[str, Node] = {}
    for key, cell in zip(header, row, strict=False):
        text = cell.strip()
        try:
            value = resolve(text)
        except ValueError as error:
            problems.add_unsure(place, key, str(error))
            continue
        if value is not None:
            entries[key] = ScalarNode(place=place, text=text, value=value)
    return MappingNode(place=place, entries=entries)
