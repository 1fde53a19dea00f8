"""One process at a time conducts a study."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hpo.clock import SystemClock
from hpo.errors import OwnedError

TRY_EVERY_S = 0.01
NUM_TRIES = 20
"""`owner_of` holds the lock for microseconds, also when many ask."""


@contextlib.contextmanager
def own(path: Path, study: str) -> Iterator[None]:
    """Hold a study for as long as the context lasts.

    The lock is the operating system's, so a dead owner blocks nobody.

    Raises:
        OwnedError: another living process conducts it; the text names that process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        if not _is_locked_by_us(lock):
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            raise OwnedError(
                f"{study} is being run by process {owner}; wait for it, or end it with"
                f" `hpo stop {study}`"
            )
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _is_locked_by_us(lock: IO[str]) -> bool:
    """Try for a moment to take the lock: whoever looks at it holds it for an instant."""
    clock = SystemClock()
    for _ in range(NUM_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        clock.sleep(TRY_EVERY_S)
    return False


def owner_of(path: Path) -> str | None:
    """Return the process ID that conducts a study now, or None."""
    if not path.exists():
        return None
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            return lock.read().strip()
    return None
