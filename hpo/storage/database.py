"""Opening the ledger's database: created once under a lock, its settings made on purpose."""

import contextlib
import fcntl
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy.pool import ConnectionPoolEntry

from hpo.clock import SystemClock
from hpo.errors import UsageError
from hpo.storage import hpo_schema, optuna_schema
from hpo.storage.filesystem import network_filesystem

SQLITE_BUSY_TIMEOUT_S = 30
"""How long a writer waits for another one, such as a viewer or a backup."""

GIVE_UP_S = 120.0
"""How long a server that went away is waited for; it restarts within a minute."""

PAUSES_S = (0.0, 0.1, 0.5, 1.0, 2.0)
"""Before each further try to reach it; the last one repeats."""

POSTGRES_OPTIONS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Options of libpq, in s and ms: a network that swallows everything is noticed in 30 s."""

P = ParamSpec("P")
R = TypeVar("R")

POSTGRES_CREATION_LOCK = 0x68706F  # "hpo"
"""Number of the advisory lock that guards the creation of tables."""


def open_engine(url: str) -> sa.Engine:
    """Return an engine for a database whose tables exist and fit.

    Creation is guarded by a lock, because twelve processes that create the schema at once would
    crash most of each other.

    Raises:
        UsageError: the database belongs to a newer version, or is not writable.
    """
    parsed = sa.make_url(url)
    engine = _make_engine(parsed)
    try:
        with _creation_lock(engine):
            if not sa.inspect(engine).has_table(hpo_schema.version.name):
                optuna_schema.create_optuna_tables(url)
                _create_tables(engine)
            else:
                _migrate(engine)
        _check_version(engine)
    except sa.exc.DatabaseError as error:
        engine.dispose()
        raise UsageError(
            f"the ledger {parsed.render_as_string(hide_password=True)} cannot be opened:"
            f" {error.orig}; check that its folder is writable and the file is a database"
        ) from error
    except UsageError:
        engine.dispose()
        raise
    return engine


def _make_engine(url: sa.URL) -> sa.Engine:
    if url.get_backend_name() == "sqlite":
        _refuse_network(url)
        engine = sa.create_engine(url)
        _listen_sqlite(engine)
        return engine
    options = {name: n for name, n in POSTGRES_OPTIONS.items() if name not in url.query}
    # One connection writes, two read: with a viewer's, a study keeps within its workers + 3.
    return sa.create_engine(
        url, connect_args=options, pool_size=1, max_overflow=1, pool_pre_ping=True
    )


def _refuse_network(url: sa.URL) -> None:
    if not url.database or url.database == ":memory:":
        return
    folder = Path(url.database).absolute().parent
    kind = network_filesystem(folder)
    if kind is not None:
        raise UsageError(
            f"{folder} is on a network file system ({kind}), where SQLite loses data; keep the"
            " home on a local disk with --home DIR, or name a PostgreSQL database in HPO_LEDGER"
        )


def is_lost(error: sa.exc.DBAPIError) -> bool:
    """Tell whether an error means that the server cannot be reached, now or any more."""
    has_no_state = getattr(error.orig, "sqlstate", "unknown") is None  # no server gave it one
    never_reached = isinstance(error, sa.exc.OperationalError) and has_no_state
    return error.connection_invalidated or never_reached


def survives_drops(method: Callable[P, R]) -> Callable[P, R]:
    """Repeat a method that reads, or writes what may be written twice, when its server is away."""

    @functools.wraps(method)
    def again(*args: P.args, **kwargs: P.kwargs) -> R:
        clock = SystemClock()
        deadline_s = clock.monotonic() + GIVE_UP_S
        for pause_s in pauses_s():
            try:
                return method(*args, **kwargs)
            except sa.exc.DBAPIError as error:
                if not is_lost(error) or clock.monotonic() > deadline_s:
                    raise
            clock.sleep(pause_s)
        raise AssertionError("the pauses never end")

    return again


def pauses_s() -> Iterator[float]:
    """Yield how long to wait before each further try, for ever."""
    yield from PAUSES_S
    while True:
        yield PAUSES_S[-1]


def _create_tables(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        hpo_schema.metadata.create_all(connection)
        connection.execute(hpo_schema.version.insert().values(version=hpo_schema.SCHEMA_VERSION))


def _migrate(engine: sa.Engine) -> None:
    """Bring tables of an earlier version up to this one; leave those of a later as they are."""
    with engine.begin() as connection:
        found = connection.execute(sa.select(hpo_schema.version.c.version)).scalar_one()
        for version in range(found + 1, hpo_schema.SCHEMA_VERSION + 1):
            for table in hpo_schema.ADDED_IN[version]:
                table.create(connection, checkfirst=True)
            connection.execute(hpo_schema.version.update().values(version=version))


def _check_version(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        found = connection.execute(sa.select(hpo_schema.version.c.version)).scalar_one()
    if found != hpo_schema.SCHEMA_VERSION:
        raise UsageError(
            f"{engine.url.render_as_string(hide_password=True)} has ledger version {found}, this"
            f" hpo reads version {hpo_schema.SCHEMA_VERSION}; install the hpo that wrote it, or"
            " use another --home"
        )


@contextlib.contextmanager
def _creation_lock(engine: sa.Engine) -> Iterator[None]:
    """Let one process at a time look for the tables and create them."""
    if engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(POSTGRES_CREATION_LOCK)))
            yield
    elif engine.url.database:
        path = Path(engine.url.database)
        with path.with_name(path.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    else:  # in memory: nobody else sees it
        yield


def _listen_sqlite(engine: sa.Engine) -> None:
    """Make SQLite transactions explicit, concurrent with readers, and patient."""

    @sa.event.listens_for(engine, "connect")
    def on_connect(
        connection: sa.engine.interfaces.DBAPIConnection, _: ConnectionPoolEntry
    ) -> None:
        connection.isolation_level = None  # the driver must not begin transactions by itself
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={SQLITE_BUSY_TIMEOUT_S * 1000}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def on_begin(connection: sa.Connection) -> None:
        # A writer takes its lock at once: upgrading a read lock later fails instead of waiting.
        is_write = connection.get_execution_options().get("is_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")


@contextlib.contextmanager
def write_transaction(engine: sa.Engine, *, is_durable: bool) -> Iterator[sa.Connection]:
    """Open one write transaction.

    Args:
        engine: from `open_engine`.
        is_durable: whether it must survive a power cut (SQLite synchronous FULL). A process that
            is killed loses nothing either way.
    """
    with engine.connect().execution_options(is_write=True) as connection:
        if engine.dialect.name == "sqlite":
            level = "FULL" if is_durable else "NORMAL"
            cursor = connection.connection.cursor()
            cursor.execute(f"PRAGMA synchronous={level}")
            cursor.close()
        with connection.begin():
            yield connection
