"""The durable local spool between what happened and the tracking server, which may be down.

One SQLite file. `append` returns when the records are safe from a killed process; delivering them
is another process's work. A record's key is kept after its delivery, its content is not, so that
telling a delivered record again stays harmless and the file stays small.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from tracking.file_lock import locked
from tracking.records import Destination, Record, from_json, to_json

PENDING, DELIVERED, REFUSED = 0, 1, 2

_BUSY_TIMEOUT_S = 30.0
_MAX_ROWS_PER_STATEMENT = 500
"""SQLite takes at least 999 bound values in one statement."""

_metadata = sa.MetaData()

_destinations = sa.Table(
    "destinations",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uri", sa.Text, nullable=False),
    sa.Column("experiment", sa.Text, nullable=False),
    sa.UniqueConstraint("uri", "experiment"),
)

_records = sa.Table(
    "records",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("destination_id", sa.ForeignKey("destinations.id"), nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("state", sa.Integer, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.UniqueConstraint("destination_id", "key"),
    # Never give an ID again: "up to this ID" must keep its meaning when rows are forgotten.
    sqlite_autoincrement=True,
)
sa.Index(
    "pending_records",
    _records.c.destination_id,
    _records.c.id,
    sqlite_where=_records.c.state == PENDING,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A record on its way."""

    id: int
    """Grows in the order of appending."""
    destination: Destination
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A record that its destination will never take."""

    destination: Destination
    key: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxCounts:
    """How many records there are in each state."""

    pending: int
    delivered: int
    refused: int


class Outbox:
    """A spool in one file, shared by any number of processes and threads."""

    def __init__(self, path: Path) -> None:
        """Open the spool at `path`, creating it and its folder at the first use."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._engine = sa.create_engine(
            f"sqlite:///{path}", connect_args={"timeout": _BUSY_TIMEOUT_S}
        )
        sa.event.listen(self._engine, "connect", _set_pragmas)
        self._destination_ids: dict[Destination, int] = {}
        # Two processes that create tables, or switch to WAL, at once: one of them fails.
        with locked(path.with_name(path.name + ".lock")):
            _metadata.create_all(self._engine)

    def append(self, destination: Destination, records: Iterable[Record]) -> None:
        """Keep the records, all or none; those kept before, by key, are left as they are."""
        rows = [{"key": record.key, "content": to_json(record)} for record in records]
        if not rows:
            return
        with self._engine.begin() as connection:
            destination_id = self._destination_id(connection, destination)
            connection.execute(
                insert(_records).on_conflict_do_nothing(),
                [
                    {"destination_id": destination_id, "state": PENDING, "error": "", **row}
                    for row in rows
                ],
            )
        self._destination_ids[destination] = destination_id

    def waiting(self) -> list[Destination]:
        """Return the destinations that records are on their way to."""
        ids = sa.select(_records.c.destination_id).where(_records.c.state == PENDING).distinct()
        query = sa.select(_destinations).where(_destinations.c.id.in_(ids))
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(_destinations.c.id)).all()
        return [Destination(uri=row.uri, experiment=row.experiment) for row in rows]

    def pending(self, limit: int, destination: Destination | None = None) -> list[Pending]:
        """Return the oldest `limit` records on their way, to one destination or to all.

        They come in the order of appending.
        """
        query = (
            sa.select(
                _records.c.id, _records.c.content, _destinations.c.uri, _destinations.c.experiment
            )
            .join(_destinations)
            .where(_records.c.state == PENDING)
            .order_by(_records.c.id)
            .limit(limit)
        )
        if destination is not None:
            query = query.where(
                _destinations.c.uri == destination.uri,
                _destinations.c.experiment == destination.experiment,
            )
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return [
            Pending(
                id=row.id,
                destination=Destination(uri=row.uri, experiment=row.experiment),
                record=from_json(row.content),
            )
            for row in rows
        ]

    def settle(self, delivered: Sequence[int], refused: Mapping[int, str] | None = None) -> None:
        """Take records off the way, in one transaction.

        Args:
            delivered: IDs of those that arrived. Their content is dropped, their keys stay.
            refused: Reasons by ID of those that will never be taken. Their content stays.
        """
        with self._engine.begin() as connection:
            for start in range(0, len(delivered), _MAX_ROWS_PER_STATEMENT):
                connection.execute(
                    sa.update(_records)
                    .where(_records.c.id.in_(delivered[start : start + _MAX_ROWS_PER_STATEMENT]))
                    .values(state=DELIVERED, content="")
                )
            for id_, error in (refused or {}).items():
                connection.execute(
                    sa.update(_records)
                    .where(_records.c.id == id_)
                    .values(state=REFUSED, error=error)
                )

    def refused(self) -> list[Refused]:
        """Return the records set aside, oldest first."""
        query = (
            sa.select(
                _records.c.key, _records.c.error, _destinations.c.uri, _destinations.c.experiment
            )
            .join(_destinations)
            .where(_records.c.state == REFUSED)
            .order_by(_records.c.id)
        )
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return [
            Refused(
                destination=Destination(uri=row.uri, experiment=row.experiment),
                key=row.key,
                error=row.error,
            )
            for row in rows
        ]

    def counts(self) -> OutboxCounts:
        """Return how many records there are in each state."""
        state, count = _records.c.state, sa.func.count().label("num_records")
        query = sa.select(state, count).group_by(state)
        with self._engine.connect() as connection:
            by_state = {row.state: row.num_records for row in connection.execute(query)}
        return OutboxCounts(
            pending=by_state.get(PENDING, 0),
            delivered=by_state.get(DELIVERED, 0),
            refused=by_state.get(REFUSED, 0),
        )

    def last_id(self) -> int:
        """Return the ID of the newest record, 0 when there is none."""
        with self._engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.max(_records.c.id))) or 0

    def num_pending(self, up_to_id: int | None = None) -> int:
        """Return how many records are on their way, of those up to `up_to_id` when given."""
        query = sa.select(sa.func.count()).where(_records.c.state == PENDING)
        if up_to_id is not None:
            query = query.where(_records.c.id <= up_to_id)
        with self._engine.connect() as connection:
            return connection.scalar(query) or 0

    def forget(self, run_key: str) -> int:
        """Drop the records of a run and of those below it, in whatever state; return how many.

        Afterwards the same records may be appended, and are delivered, again.
        """
        key = _records.c.key
        with self._engine.begin() as connection:
            result = connection.execute(
                sa.delete(_records).where(
                    key.startswith(f"{run_key}#", autoescape=True)
                    | key.startswith(f"{run_key}/", autoescape=True)
                )
            )
            return result.rowcount

    def close(self) -> None:
        """Let go of the file."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _destination_id(self, connection: sa.Connection, destination: Destination) -> int:
        known = self._destination_ids.get(destination)
        if known is not None:
            return known
        values = {"uri": destination.uri, "experiment": destination.experiment}
        connection.execute(insert(_destinations).on_conflict_do_nothing(), values)
        row = connection.execute(sa.select(_destinations.c.id).filter_by(**values)).one()
        return int(row.id)


def _set_pragmas(connection: object, _record: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    # NORMAL: a killed process loses nothing; a power cut may lose the last records, not the file.
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
