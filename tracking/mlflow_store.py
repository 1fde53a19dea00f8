"""The local MLflow database: made by one process at a time, and movable with its folder.

No import of MLflow here. MLflow has no call for the second: it keeps absolute artifact paths.
"""

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from tracking.file_lock import locked

ARTIFACTS_TAG = "hpo.artifact_folder"
"""An experiment's tag: the folder, within our artifact root, that holds its artifacts."""

_BUSY_TIMEOUT_S = 30.0


def sqlite_path(uri: str) -> Path | None:
    """Return the database file of a SQLite URI, None for any other URI."""
    scheme, _, path = uri.partition(":///")
    return Path(path) if scheme.startswith("sqlite") and path else None


@contextlib.contextmanager
def alone_with(uri: str, artifact_root: Path, create: Callable[[str], None]) -> Iterator[None]:
    """Keep other processes out while the store at `uri` is opened, and create a SQLite one.

    Of several processes that migrate one fresh database, all but one fail (measured: 11 of 12),
    and one that is killed meanwhile leaves a database that MLflow can neither open nor mend. Hence
    the lock, and the database appears under its name only when it is whole.

    Args:
        uri: Of a database.
        artifact_root: Where the lock is kept when the database is not a file.
        create: Makes an empty store at a SQLite URI and lets go of its file.
    """
    path = sqlite_path(uri)
    lock = path or artifact_root
    lock.parent.mkdir(parents=True, exist_ok=True)
    with locked(lock.with_name(lock.name + ".lock")):
        if path is not None and not path.exists():
            unborn = path.with_name(path.name + ".new")
            for left_over in path.parent.glob(unborn.name + "*"):
                left_over.unlink()
            create(f"sqlite:///{unborn}")
            with contextlib.closing(_connect(unborn)) as connection:
                # Stays with the file: people look at the runs while we write.
                connection.execute("PRAGMA journal_mode=WAL")
            unborn.replace(path)
        yield


def artifact_folder(experiment: str) -> str:
    """Return a folder name for an experiment: its own name where that can be one."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", experiment).strip(".-")[:80]
    if plain == experiment:
        return plain
    return f"{plain}-{sha256(experiment.encode()).hexdigest()[:8]}"


def move_artifacts(path: Path, experiment_id: str, old: str, new: str) -> None:
    """Point an experiment and its runs at artifacts that were moved with the database.

    Args:
        path: The database file.
        experiment_id: Whose artifacts.
        old: The location as stored.
        new: The location that is right now.
    """
    with contextlib.closing(_connect(path)) as connection, connection:
        connection.execute(
            "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?",
            (new, int(experiment_id)),
        )
        connection.execute(
            "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) "
            "WHERE experiment_id = ? AND substr(artifact_uri, 1, ?) = ?",
            (new, len(old) + 1, int(experiment_id), len(old) + 1, f"{old}/"),
        )


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S)
