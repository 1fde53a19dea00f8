"""Putting a whole folder in its place: a reader finds the old one or the new one."""

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hpo.export.bundle import ExportError, foreign_content

_AT_CWD: Final = -100
"""`AT_FDCWD` of fcntl.h: paths are as the process sees them."""
_EXCHANGE: Final = 2
"""`RENAME_EXCHANGE` of renameat2(2)."""


def check_destination(destination: Path) -> None:
    """Refuse a destination where something lies that is not ours to replace.

    Raises:
        ExportError: it is a file, a link, or a folder that is neither empty nor a bundle.
    """
    if destination.is_symlink():
        reason: str | None = "it is a link"
    elif destination.is_dir():
        reason = foreign_content(destination)
    else:
        reason = "it is a file" if destination.exists() else None
    if reason:
        raise ExportError(
            f"{destination} is not replaced: {reason}; name another folder, or move it away"
        )


@contextmanager
def staging(destination: Path) -> Iterator[Path]:
    """Give a hidden folder beside the destination, on its file system, and remove it afterwards.

    Raises:
        ExportError: the place cannot be written.
    """
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(
            prefix=f".{destination.name}.", suffix=".tmp", dir=destination.parent
        )
    except OSError as error:
        raise ExportError(
            f"{destination.parent} cannot be written: {error.strerror}; name another folder"
        ) from error
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_file(path: Path, data: bytes) -> None:
    """Write a file that is on disk when this returns."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def publish_folder(staged: Path, destination: Path, check: Callable[[Path], None]) -> None:
    """Put a staged folder in its place, durably, or leave the place as it was.

    Args:
        staged: complete, in a folder of `staging(destination)`; afterwards there lies what was
            replaced, if anything was.
        destination: free, an empty folder, or a bundle.
        check: looks at the folder in its place; when it raises, the move is undone.

    Raises:
        ExportError: something else has come to lie at the destination.
    """
    check_destination(destination)
    _sync(staged)
    is_replacing = destination.exists()
    _swap(staged, destination) if is_replacing else staged.rename(destination)
    try:
        check(destination)
    except BaseException:
        _swap(staged, destination) if is_replacing else destination.rename(staged)
        raise
    finally:
        _sync(destination.parent)


def _swap(left: Path, right: Path) -> None:
    """Let two folders change places."""
    if _exchange(left, right):
        return
    # Three steps where the system has no single one; a reader between them finds nothing there.
    aside = left.with_name(f"{left.name}.aside")
    right.rename(aside)
    try:
        left.rename(right)
    except BaseException:
        aside.rename(right)
        raise
    aside.rename(left)


def _exchange(left: Path, right: Path) -> bool:
    """Let two folders change places in one step; return False where the system cannot.

    Python has no call for it: https://github.com/python/cpython/issues/81340
    """
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    code = rename(_AT_CWD, os.fsencode(left), _AT_CWD, os.fsencode(right), _EXCHANGE)
    return bool(code == 0)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
