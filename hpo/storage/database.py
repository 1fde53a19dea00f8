"""Opening the ledger's database: created once under a lock, its settings made on purpose."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.pool import ConnectionPoolEntry

from hpo.errors import UsageError
from hpo.storage import hpo_schema, optuna_schema

SQLITE_BUSY_TIMEOUT_S = 30
"""How long a writer waits for another one, such as a viewer or a backup."""

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
    engine = sa.create_engine(parsed)
    if parsed.get_backend_name() == "sqlite":
        _listen_sqlite(engine)
    try:
        with _creation_lock(engine):
            if not sa.inspect(engine).has_table(hpo_schema.version.name):
                optuna_schema.create_optuna_tables(url)
                _create_tables(engine)
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


def _create_tables(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        hpo_schema.metadata.create_all(connection)
        connection.execute(hpo_schema.version.insert().values(version=hpo_schema.SCHEMA_VERSION))


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
