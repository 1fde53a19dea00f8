"""One process at a time conducts a study.

Two locks see to that: the operating system's on a file beside the ledger, for all processes of
this machine, and PostgreSQL's own, for all hosts that share a ledger there. Both end with their
holder.
"""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hpo.clock import SystemClock
from hpo.errors import OwnedError
from hpo.storage.ledger import Ledger, Owner
from hpo.study.home import Home

TRY_EVERY_S = 0.01
NUM_TRIES = 20
"""`owner_of` holds the lock for microseconds, also when many ask."""


@contextlib.contextmanager
def own_study(home: Home, study: str, ledger: Ledger) -> Iterator[None]:
    """Hold a study for as long as the context lasts; the ledger must be closed after it.

    Args:
        home: where its files are.
        study: its name; it need not exist yet.
        ledger: the one that it is going to be conducted with, and no other.

    Raises:
        OwnedError: another living process, here or elsewhere, conducts it; the text names it.
    """
    owner = Owner(host=socket.gethostname(), pid=os.getpid())
    with own(home.owner_lock(study), study), ledger.own(study, owner):
        yield


def owner_of_study(home: Home, study: str, ledger: Ledger) -> str | None:
    """Return which process conducts a study now, with its host where that is not sure; or None."""
    here = owner_of(home.owner_lock(study))
    if here is not None:
        return here
    elsewhere = ledger.owner_of(study)
    return str(elsewhere) if elsewhere is not None else None


@contextlib.contextmanager
def own(path: Path, study: str) -> Iterator[None]:
    """Hold a study among the processes of this machine for as long as the context lasts.

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
    """Return the process ID of this machine that conducts a study now, or None."""
    if not path.exists():
        return None
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            return lock.read().strip()
    return None
