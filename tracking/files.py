"""Publishing a file whole: a reader finds the old content or the new, never a part of either."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

TEMPORARY_SUFFIX: Final = ".tmp"
"""Ends the names of files being written; one that outlives its writer may be deleted."""


def publish_bytes(path: Path, data: bytes) -> None:
    """Make `data` the content of `path`, durably and in one step.

    The bytes go to a hidden file in the same folder, which takes the name only when it is on
    disk. A writer that is killed leaves at most that hidden file.

    Args:
        path: the file to create or replace; its folder is created when it is missing.
        data: the whole content.

    Raises:
        OSError: the disk is full or the folder cannot be written; `path` is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        prefix=f".{path.name}.", suffix=TEMPORARY_SUFFIX, dir=path.parent
    )
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
