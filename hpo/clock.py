"""Time as an argument: everything that waits or stamps takes a `Clock`."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells and spends time.

    1. `monotonic` never goes back and is compared only within one process.
    2. `now` is aware, in UTC, and is written into records, never used to measure.
    """

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Wait for `duration_s` seconds."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Wait for `duration_s` seconds."""
        time.sleep(duration_s)
