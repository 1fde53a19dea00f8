"""Databases for the ledger: a SQLite file, and PostgreSQL where there is one."""

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
import sqlalchemy as sa

from hpo.storage import hpo_schema, optuna_schema
from hpo.storage.sql_ledger import SqlLedger
from tests.fakes.postgres import private_server, server_binaries


class Databases(Protocol):
    """Makes databases, empty ones and ones with the ledger's tables."""

    def empty(self) -> str:
        """Return the URL of a new database."""
        ...

    def with_tables(self) -> str:
        """Return the URL of a ledger without studies, the only one in use at a time."""
        ...


class SqliteFiles:
    """Databases in files; fulfils `Databases`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._template: Path | None = None

    def empty(self) -> str:
        return f"sqlite:///{self._path()}"

    def with_tables(self) -> str:
        if self._template is None:
            self._template = self._path()
            SqlLedger(f"sqlite:///{self._template}").close()
        return f"sqlite:///{shutil.copy(self._template, self._path())}"

    def _path(self) -> Path:
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        return folder / "hpo.db"


class PostgresDatabases:
    """Databases of one server; fulfils `Databases`."""

    def __init__(self, server: str) -> None:
        self._server = sa.make_url(server)
        self._names = (f"hpo_test_{os.getpid()}_{number}" for number in itertools.count(1))
        self._made: list[str] = []
        self._with_tables: str | None = None

    def empty(self) -> str:
        name = next(self._names)
        self._execute(self._server, f"CREATE DATABASE {name}")
        self._made.append(name)
        return self._server.set(database=name).render_as_string(hide_password=False)

    def with_tables(self) -> str:
        if self._with_tables is None:
            self._with_tables = self.empty()
            SqlLedger(self._with_tables).close()
        url = sa.make_url(self._with_tables)
        tables = ", ".join([*optuna_schema.metadata.tables, *hpo_schema.metadata.tables])
        self._execute(url, f"TRUNCATE {tables}")
        self._execute(url, hpo_schema.version.insert().values(version=hpo_schema.SCHEMA_VERSION))
        return self._with_tables

    def drop_all(self) -> None:
        for name in self._made:
            self._execute(self._server, f"DROP DATABASE {name} WITH (FORCE)")

    @staticmethod
    def _execute(url: sa.URL, statement: str | sa.Insert) -> None:
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            text = sa.text(statement) if isinstance(statement, str) else statement
            connection.execute(text)


@pytest.fixture(scope="session")
def sqlite_files(tmp_path_factory: pytest.TempPathFactory) -> SqliteFiles:
    """Return a maker of SQLite files."""
    return SqliteFiles(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgres_databases() -> Iterator[PostgresDatabases | None]:
    """Return a maker of databases on a server, or None where there is no server."""
    binaries, named = server_binaries(), os.environ.get("HPO_TEST_POSTGRES")
    if named is not None:
        databases = PostgresDatabases(named)
        yield databases
        databases.drop_all()
    elif binaries is None:
        yield None
    else:
        with private_server(binaries) as url:
            yield PostgresDatabases(url)


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request: pytest.FixtureRequest) -> Databases:
    """Return a maker of databases of each kind."""
    if request.param == "sqlite":
        files: SqliteFiles = request.getfixturevalue("sqlite_files")
        return files
    return _server_of(request)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> str:
    """Return the URL of a ledger without studies on PostgreSQL."""
    return _server_of(request).with_tables()


def _server_of(request: pytest.FixtureRequest) -> PostgresDatabases:
    pytest.importorskip("psycopg", reason="no PostgreSQL: install hpo[postgres]")
    on_server: PostgresDatabases | None = request.getfixturevalue("postgres_databases")
    if on_server is None:
        pytest.skip("no PostgreSQL: install its server, or name one in HPO_TEST_POSTGRES")
    return on_server


@pytest.fixture
def database(databases: Databases) -> str:
    """Return the URL of a ledger without studies."""
    return databases.with_tables()
