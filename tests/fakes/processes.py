"""Looking at processes that are not our children."""

import time
from collections.abc import Iterable

import psutil


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be collected does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def alive_after(pids: Iterable[int], within_s: float) -> list[int]:
    """Return which processes are alive when all are gone, or `within_s` is over."""
    deadline = time.monotonic() + within_s
    remaining = list(pids)
    while remaining and time.monotonic() < deadline:
        present = [psutil.Process(pid) for pid in remaining if psutil.pid_exists(pid)]
        psutil.wait_procs(present, timeout=0.02)
        remaining = [pid for pid in remaining if is_alive(pid)]
    return remaining


def descendants(pid: int | None = None) -> set[int]:
    """Return every process below one, or below this one."""
    return {child.pid for child in psutil.Process(pid).children(recursive=True)}
