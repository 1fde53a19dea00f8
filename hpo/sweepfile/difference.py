"""What changed between two sweeps, and whether a running study can follow."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.domain.search_space import Choices, Parameter, Range, same_value
from hpo.domain.sweep import Grid, OneAtATime, Sweep
from hpo.sweepfile.dump import dump_parameter, dump_sweep
from hpo.sweepfile.section import show

HARMLESS = frozenset({"description", "execution"})
"""Sections that never change a result."""

_SEPARATE = frozenset({"study", "vary", "baseline"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that differs."""

    path: str
    """The key path, such as `vary.lr` or `budget.trials`."""
    old: str | None
    """As one would write it; None where it was not there."""
    new: str | None
    """As one would write it; None where it is gone."""
    is_harmless: bool = False
    """Whether results stay what they are, so that it may change at any time."""
    is_extension: bool = False
    """Whether every trial of the old study is one of the new study too, which has more to do."""


def compare_sweeps(old: Sweep, new: Sweep) -> list[Change]:
    """Return what differs, in the order of the file. The study's name does not count."""
    before, after = dump_sweep(old), dump_sweep(new)
    changes = [*_section_changes("baseline", before["baseline"], after["baseline"])]
    changes += _space_changes(old, new)
    for section in [*after, *(key for key in before if key not in after)]:
        if section in _SEPARATE:
            continue
        for change in _section_changes(section, before.get(section), after.get(section)):
            changes.append(_judged(change, old, new))
    order = ["description", "objective", "strategy", "baseline", "vary", *after, *before]
    return sorted(changes, key=lambda change: order.index(change.path.split(".")[0]))


def render_changes(changes: Sequence[Change]) -> str:
    """Return a small difference for people, one line for each change.

    `+` was added, `-` is gone, `~` is another value.
    """
    width = max((len(change.path) for change in changes), default=0)
    return "\n".join(_line(change, width) for change in changes)


def _line(change: Change, width: int) -> str:
    path = change.path.ljust(width)
    if change.old is None:
        return f"+ {path}  {change.new}"
    if change.new is None:
        return f"- {path}  {change.old}"
    return f"~ {path}  {change.old} -> {change.new}"


def write_value(value: Any) -> str:
    """Return a value of a sweep document as one would write it in the file, on one line."""
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{key}: {write_value(below)}" for key, below in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(write_value(item) for item in value) + "]"
    return show(value)


def _section_changes(path: str, old: Any, new: Any) -> Iterator[Change]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*new, *(key for key in old if key not in new)]:
            yield from _section_changes(f"{path}.{key}", old.get(key), new.get(key))
    elif old != new or isinstance(old, bool) is not isinstance(new, bool):
        yield Change(
            path=path,
            old=None if old is None else write_value(old),
            new=None if new is None else write_value(new),
        )


def _judged(change: Change, old: Sweep, new: Sweep) -> Change:
    section = change.path.split(".")[0]
    is_extension = section == "tracking"  # the records move; the ledger can fill the new place
    if change.path == "replicates":
        is_extension = new.replicates > old.replicates
    elif change.path == "budget.trials":
        is_extension = _limit(new.budget.num_trials) > _limit(old.budget.num_trials)
    elif change.path == "budget.hours":
        is_extension = _limit(new.budget.hours) > _limit(old.budget.hours)
    elif section == "budget":
        is_extension = _is_later(old, new)
    return Change(
        path=change.path,
        old=change.old,
        new=change.new,
        is_harmless=section in HARMLESS,
        is_extension=is_extension,
    )


def _limit(number: float | None) -> float:
    return math.inf if number is None else number


def _is_later(old: Sweep, new: Sweep) -> bool:
    """Tell whether the value that ends the study is harder to reach."""
    if new.budget.until is None or old.budget.until is None:
        return new.budget.until is None
    return new.objective.is_better(new.budget.until, old.budget.until)


def _space_changes(old: Sweep, new: Sweep) -> Iterator[Change]:
    before = {parameter.name: parameter for parameter in old.space.parameters}
    after = {parameter.name: parameter for parameter in new.space.parameters}
    is_planned = isinstance(new.strategy, OneAtATime | Grid) and new.strategy == old.strategy
    for name in [*after, *(name for name in before if name not in after)]:
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        if was is None or now is None:
            is_extension = was is None and isinstance(new.strategy, OneAtATime) and is_planned
        else:
            is_extension = _is_wider(was, now, is_planned=is_planned)
        yield Change(
            path=f"vary.{name}",
            old=None if was is None else write_value(dump_parameter(was)),
            new=None if now is None else write_value(dump_parameter(now)),
            is_extension=is_extension,
        )
    common = [name for name in old.space.names if name in after]
    if common != [name for name in new.space.names if name in before]:
        yield Change(
            path="vary",
            old=f"in the order {', '.join(old.space.names)}",
            new=f"in the order {', '.join(new.space.names)}",
            is_extension=is_planned,
        )


def _is_wider(old: Parameter, new: Parameter, *, is_planned: bool) -> bool:
    """Tell whether every old value stays possible."""
    if is_planned:
        return all(any(same_value(point, other) for other in new.points) for point in old.points)
    if isinstance(old, Choices):
        is_like = not isinstance(new, Choices) or new.is_ordered is old.is_ordered
        return is_like and all(new.contains(value) for value in old.values)
    if not isinstance(new, Range):
        return False
    same_kind = (old.is_log, old.step, old.is_integer) == (new.is_log, new.step, new.is_integer)
    return same_kind and new.low <= old.low and old.high <= new.high and new.contains(old.low)
