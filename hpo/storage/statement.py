"""SQL statements that are compiled once for each dialect and run on the driver's own cursor.

SQLAlchemy builds and compiles them, so that one statement serves SQLite and PostgreSQL. Running
them past its cache lookup and its results makes an event several times cheaper.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

INSERT: Mapping[str, Callable[[sa.Table], sqlite.Insert | postgresql.Insert]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}
"""An insert that can heed a row that is there already; SQL has no common form of it."""

Source = sa.Select[tuple[int]]
"""Selects the trial (`trial_id`) that a statement writes to, or none: then it changes nothing."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """One bound parameter of a compiled statement."""

    name: str
    convert: Callable[[Any], Any] | None
    constant: Any
    is_constant: bool


class Compiled:
    """A statement in one dialect."""

    def __init__(self, construct: sa.ClauseElement, dialect: sa.Dialect) -> None:
        compiled = construct.compile(dialect=dialect)
        if not isinstance(compiled, sa.sql.compiler.SQLCompiler):
            raise TypeError(f"{construct} is no statement")
        self.sql = str(compiled)
        self._is_positional = compiled.positiontup is not None
        names: Sequence[str] = compiled.positiontup or list(compiled.binds)
        self._slots = [_slot(name, compiled.binds[name], dialect) for name in names]

    def bind(self, params: Mapping[str, Any]) -> Any:
        """Return the driver's form of the parameters."""
        values = [
            slot.constant if slot.is_constant else _converted(slot.convert, params[slot.name])
            for slot in self._slots
        ]
        if self._is_positional:
            return values
        return {slot.name: value for slot, value in zip(self._slots, values, strict=True)}


def _slot(name: str, bind: sa.BindParameter[Any], dialect: sa.Dialect) -> _Slot:
    convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
    constant = _converted(convert, bind.value)
    return _Slot(name, convert, constant, is_constant=not bind.required)


def _converted(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


class Statement:
    """A statement that is built by dialect and compiled on its first use."""

    def __init__(self, build: Callable[[str], sa.ClauseElement]) -> None:
        """Keep how to build it.

        Args:
            build: takes the dialect's name. Parameters are `sa.bindparam`s without a value.
        """
        self._build = build
        self._compiled: dict[str, Compiled] = {}

    def on(self, dialect: sa.Dialect) -> Compiled:
        """Return the statement in a dialect."""
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = Compiled(self._build(dialect.name), dialect)
        return compiled


@dataclass(frozen=True, slots=True)
class Write:
    """A statement with its parameters, and what it means when it touches no row."""

    statement: Statement
    params: Mapping[str, Any]
    is_fence: bool = False
    """Whether no row means that its event came late."""
    refusal: str | None = field(default=None, kw_only=True)
    """What is wrong when there is no row; None: nothing is."""


def put(
    table: sa.Table,
    trial: Source,
    names: Sequence[str],
    *,
    replaces: Sequence[str] = (),
) -> Statement:
    """Return an insert of one row for the trial that a source selects.

    Args:
        table: has the column `trial_id`.
        trial: selects the trial.
        names: the other columns; each is a parameter.
        replaces: the columns that, with `trial_id`, name a row which is overwritten when it is
            there. Without any, a row that is there is an error.
    """

    def build(dialect: str) -> sa.ClauseElement:
        values = [sa.bindparam(name, type_=table.c[name].type) for name in names]
        source = trial.add_columns(*(value.label(value.key) for value in values))
        insert = INSERT[dialect](table).from_select(
            ["trial_id", *names], source, include_defaults=False
        )
        if not replaces:
            return insert
        changed = {name: insert.excluded[name] for name in names if name not in replaces}
        return insert.on_conflict_do_update(index_elements=["trial_id", *replaces], set_=changed)

    return Statement(build)


def change(table: sa.Table, trial: Source, names: Sequence[str]) -> Statement:
    """Return an update of the row that a table has of a trial; each column is a parameter."""
    values = {
        name: sa.bindparam(f"new_{name}", type_=table.c[name].type, required=True)
        for name in names
    }
    construct = table.update().where(table.c.trial_id == trial.scalar_subquery()).values(values)
    return Statement(lambda _: construct)
