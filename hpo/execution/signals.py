"""Ctrl-C and its kin as a planned path: the first asks to leave in order, the second leaves."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Counts the requests to leave."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, _number: int, _frame: FrameType | None) -> None:
        """Count one signal."""
        self.count += 1


@contextlib.contextmanager
def interruptible() -> Iterator[Interruption]:
    """Count stop signals instead of dying of them, for as long as the context lasts.

    Handlers are set on purpose: a process put in the background by a shell script ignores SIGINT.
    """
    interruption = Interruption()
    previous = {number: signal.signal(number, interruption.note) for number in STOP_SIGNALS}
    try:
        yield interruption
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
