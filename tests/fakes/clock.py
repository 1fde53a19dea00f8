"""Time that moves only when it is told to."""

from datetime import UTC, datetime, timedelta

BEGINNING = datetime(2026, 3, 1, tzinfo=UTC)


class FakeClock:
    """Fulfils `Clock`; sleeping moves it at once."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return BEGINNING + timedelta(seconds=self._now_s)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""
        return self._now_s

    def sleep(self, duration_s: float) -> None:
        """Move on."""
        self._now_s += duration_s
