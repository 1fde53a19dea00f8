"""The one connection through which a ledger writes: explicit transactions, few round trips."""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from hpo.clock import Clock, SystemClock
from hpo.errors import HpoError
from hpo.storage.database import GIVE_UP_S, is_lost, pauses_s
from hpo.storage.statement import Compiled, Write

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement did."""

    count: int
    """Rows that it touched or returned."""
    rows: list[tuple[Any, ...]]


class Transaction(Protocol):
    """Runs statements; all of them become true together, or none."""

    is_again: bool
    """Whether an earlier try lost its connection and may have been committed all the same."""

    def run(self, writes: Sequence[Write]) -> list[Result]:
        """Run statements in order, sent together where the database allows it."""
        ...


class Session:
    """Runs statements on one connection of the driver; fulfils `Transaction`."""

    def __init__(self, driver: Any, engine: sa.Engine) -> None:
        self._driver = driver
        self._dialect = engine.dialect
        self._opening: str | None = None
        self.is_again = False

    def begin(self, opening: str) -> None:
        """Begin a transaction with the next statement."""
        self._opening = opening

    def commit(self) -> None:
        """End the transaction; nothing is left to do when no statement was run."""
        if self._opening is None:
            self.execute("COMMIT")
        self._opening = None

    def rollback(self) -> None:
        """Take the transaction back, as far as there is one and the connection lives."""
        if self._opening is None:
            with contextlib.suppress(sa.exc.DBAPIError):
                self.execute("ROLLBACK")
        self._opening = None

    def execute(self, sql: str, params: object = ()) -> Result:
        """Run one text."""
        try:
            cursor = self._driver.cursor()
            cursor.execute(sql, params)
            return _result(cursor)
        except self._errors as error:
            raise self._explained(sql, params, error) from error

    def run(self, writes: Sequence[Write]) -> list[Result]:
        """Run statements in order, in one round trip on PostgreSQL."""
        texts: list[tuple[str, Any]] = []
        if self._opening is not None:
            texts.append((self._opening, ()))
        for write in writes:
            compiled: Compiled = write.statement.on(self._dialect)
            texts.append((compiled.sql, compiled.bind(write.params)))
        self._opening, num_before = None, len(texts) - len(writes)
        results = self._pipelined(texts) if self._is_postgres else self._one_by_one(texts)
        return results[num_before:]

    def _one_by_one(self, texts: Sequence[tuple[str, Any]]) -> list[Result]:
        cursor, results = self._driver.cursor(), []
        sql, params = "", None
        try:
            for sql, params in texts:
                cursor.execute(sql, params)
                results.append(_result(cursor))
        except self._errors as error:
            raise self._explained(sql, params, error) from error
        finally:
            cursor.close()
        return results

    def _pipelined(self, texts: Sequence[tuple[str, Any]]) -> list[Result]:
        driver, cursors = self._driver, []
        try:
            with driver.pipeline():
                for sql, params in texts:
                    cursors.append(driver.cursor())
                    cursors[-1].execute(sql, params or None)
            return [_result(cursor) for cursor in cursors]
        except self._errors as error:
            raise self._explained("; ".join(sql for sql, _ in texts), None, error) from error

    @property
    def _is_postgres(self) -> bool:
        return self._dialect.name == "postgresql"

    @property
    def _errors(self) -> type[Exception]:
        return self._dialect.loaded_dbapi.Error

    def _explained(self, sql: str, params: Any, error: Any) -> Exception:
        """Return the error as SQLAlchemy raises it from its own connections."""
        is_gone = self._dialect.is_disconnect(error, self._driver, None)
        explained: Exception = sa.exc.DBAPIError.instance(
            sql,
            params,
            error,
            self._errors,
            connection_invalidated=is_gone,
            dialect=self._dialect,
        )
        return explained


def _result(cursor: Any) -> Result:
    if cursor.description is None:
        return Result(cursor.rowcount, [])
    rows = cursor.fetchall()
    return Result(len(rows), rows)


Work = Callable[[Transaction], T]
"""Runs once in a transaction of its own, and again when its connection was lost."""


class Writer:
    """Keeps one connection for writing. Several threads may use it; they wait for each other.

    On PostgreSQL a lost connection is made again and the work is repeated, with `is_again` set: it
    must find out whether its first try was committed after all.
    """

    def __init__(self, engine: sa.Engine, clock: Clock | None = None) -> None:
        self._engine = engine
        self._clock = clock or SystemClock()
        self._mutex = threading.RLock()
        self._session: Session | None = None
        self._close: Callable[[], None] | None = None
        self._synchronous: str | None = None
        self._backend: Mapping[str, Any] | None = None
        self.on_reconnect: list[Callable[[Session], None]] = []
        """Told of every connection after the first, before anything is written through it."""

    @property
    def is_postgres(self) -> bool:
        """Whether the database is a server whose connection can be lost."""
        return self._engine.dialect.name == "postgresql"

    def transact(self, work: Work[T], *, is_durable: bool) -> T:
        """Do work in a transaction and return what it returned.

        Args:
            work: runs statements.
            is_durable: whether it must survive a power cut (SQLite synchronous FULL). A process
                that is killed loses nothing either way.

        Raises:
            HpoError: the database went away and did not come back in time.
        """
        return self._insist(lambda session: self._once(session, work, is_durable=is_durable))

    def use(self, work: Callable[[Session], T]) -> T:
        """Do work on the connection without a transaction, such as taking a lock."""
        return self._insist(work)

    def use_last(self, work: Callable[[Session], None]) -> None:
        """Do work on the connection that is there, such as giving back what only it holds."""
        with self._mutex:
            if self._session is None:
                return
            try:
                work(self._session)
            except sa.exc.DBAPIError as error:
                if not is_lost(error):
                    raise
                self._drop()

    def close(self) -> None:
        """Close the connection; the next work opens another."""
        with self._mutex:
            self._drop()
            self._backend = None

    def _once(self, session: Session, work: Work[T], *, is_durable: bool) -> T:
        if not self.is_postgres:
            self._set_synchronous(session, "FULL" if is_durable else "NORMAL")
        # SQLite: the lock is taken at once; upgrading a read lock later fails instead of waiting.
        session.begin("BEGIN" if self.is_postgres else "BEGIN IMMEDIATE")
        try:
            result = work(session)
            session.commit()
        except BaseException:
            session.rollback()
            raise
        return result

    def _set_synchronous(self, session: Session, level: str) -> None:
        if self._synchronous != level:
            session.execute(f"PRAGMA synchronous={level}")
            self._synchronous = level

    def _insist(self, work: Callable[[Session], T]) -> T:
        with self._mutex:
            deadline_s: float | None = None
            for num_tries, pause_s in enumerate(pauses_s()):
                try:
                    session = self._connected()
                    session.is_again = num_tries > 0
                    return work(session)
                except sa.exc.DBAPIError as error:
                    if not is_lost(error):
                        raise
                    self._drop()
                    now_s = self._clock.monotonic()
                    deadline_s = now_s + GIVE_UP_S if deadline_s is None else deadline_s
                    if now_s >= deadline_s:
                        raise self._gone(error) from error
                self._clock.sleep(pause_s)
            raise AssertionError("the pauses never end")

    def _gone(self, error: sa.exc.DBAPIError) -> HpoError:
        url = self._engine.url.render_as_string(hide_password=True)
        return HpoError(
            f"the ledger {url} does not answer: {error.orig}; the study can be resumed when it"
            " does"
        )

    def _connected(self) -> Session:
        if self._session is None:
            connection = self._engine.raw_connection()
            driver: Any = connection.driver_connection
            session = Session(driver, self._engine)
            self._close, self._synchronous = connection.close, None
            if self.is_postgres:
                connection.detach()  # it is no reader's; the pool would complain of its loss
                self._close = driver.close
                driver.autocommit = True  # transactions are begun and ended in `_once`
                try:
                    self._replace_backend(session)
                except BaseException:
                    self._drop()
                    raise
            self._session = session
        return self._session

    def _replace_backend(self, session: Session) -> None:
        """End the server's half of the lost connection, which may still hold its locks."""
        lost = self._backend
        if lost is not None:
            session.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid = %(pid)s AND backend_start = %(start)s",
                lost,
            )
        pid, start = session.execute(
            "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).rows[0]
        self._backend = {"pid": pid, "start": start}
        if lost is not None:
            for tell in self.on_reconnect:
                tell(session)

    def _drop(self) -> None:
        if self._close is not None:
            self._close()
        self._session, self._close = None, None
