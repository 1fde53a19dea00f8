"""The process that takes records out of an outbox and delivers them, for as long as it takes.

Started by `tracking.sender_process`; by hand: `python -m tracking.sender --outbox FILE
--artifact-root FOLDER`, where the end of standard input (Ctrl-D) means: deliver the rest and end,
within as many seconds as were written there before, if any.
Standard output carries one JSON object per change of its status, and nothing else.
"""

import argparse
import contextlib
import ctypes
import json
import logging
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tracking.file_lock import try_lock
from tracking.outbox import Outbox
from tracking.records import Destination
from tracking.tracker import Tracker

logger = logging.getLogger("tracking.sender")

BATCH_SIZE = 500
"""Records in one delivery, some 25 short trials: half a second of work that a kill can undo."""

FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 15.0

_MIN_REST_S, _MAX_REST_S, _REST_PER_WORK = 0.5, 5.0, 10.0
"""After a delivery the sender rests ten times as long as it worked, within these limits, so that
it takes a tenth of a core at most and what piles up meanwhile goes in one call."""

_HTTP_SETTINGS = {
    # By default one call to a dead server blocks for 246 s. We have our own retries.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Environment of this process alone; a user's own setting wins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderStatus:
    """How the sender is getting on."""

    pending: int
    """Records on their way, of all destinations."""
    delivered: int
    """By this process, so far."""
    refused: int
    """By this process, so far."""
    error: str | None
    """Why it does not get on; None when it does."""


@dataclass(slots=True)
class _Backoff:
    error: str | None = None
    delay_s: float = 0.0
    next_at: float = float("-inf")

    def fail(self, error: str, now: float) -> None:
        self.error = error
        self.delay_s = min(max(FIRST_BACKOFF_S, 2 * self.delay_s), MAX_BACKOFF_S)
        self.next_at = now + self.delay_s


@dataclass(slots=True)
class Sender:
    """Delivers what an outbox holds, each destination with its own patience."""

    outbox: Outbox
    open_tracker: Callable[[str], Tracker]
    """Opens the tracker at an absolute URI."""
    monotonic: Callable[[], float] = time.monotonic
    delivered: int = 0
    refused: int = 0
    _trackers: dict[str, Tracker] = field(default_factory=dict)
    _backoffs: dict[Destination, _Backoff] = field(default_factory=dict)

    def send(self) -> bool:
        """Try every destination whose turn it is, once; return whether more is to be sent now."""
        is_more = False
        waiting = self.outbox.waiting()
        for destination in waiting:
            backoff = self._backoffs.setdefault(destination, _Backoff())
            if self.monotonic() < backoff.next_at:
                continue
            try:
                num_taken, error = self._deliver(destination)
            except Exception as unexpected:
                logger.exception("delivery to %s failed", destination)
                num_taken, error = 0, f"{type(unexpected).__name__}: {unexpected}"
            if error is None:
                self._backoffs[destination] = _Backoff()
                is_more |= num_taken == BATCH_SIZE
            else:
                backoff.fail(error, self.monotonic())
                logger.warning("%s: again in %.1f s", error, backoff.delay_s)
        for destination in set(self._backoffs).difference(waiting):
            del self._backoffs[destination]
        return is_more

    def hurry(self) -> None:
        """Forget how long to wait after failures: the next `send` tries everything."""
        for backoff in self._backoffs.values():
            backoff.next_at = float("-inf")

    def status(self) -> SenderStatus:
        """Return how it is getting on."""
        errors = [backoff.error for backoff in self._backoffs.values() if backoff.error]
        return SenderStatus(
            pending=self.outbox.num_pending(),
            delivered=self.delivered,
            refused=self.refused,
            error=errors[0][:1000] if errors else None,
        )

    def tracker(self, uri: str) -> Tracker:
        """Return the tracker at a URI as written in a destination, opened at its first use."""
        if uri not in self._trackers:
            absolute = Destination(uri=uri, experiment="").absolute_uri(self.outbox.path.parent)
            self._trackers[uri] = self.open_tracker(absolute)
        return self._trackers[uri]

    def _deliver(self, destination: Destination) -> tuple[int, str | None]:
        batch = self.outbox.pending(BATCH_SIZE, destination)
        delivery = self.tracker(destination.uri).deliver(
            destination.experiment, [pending.record for pending in batch]
        )
        self.outbox.settle(
            [batch[position].id for position in delivery.delivered],
            {batch[position].id: why for position, why in delivery.refused.items()},
        )
        self.delivered += len(delivery.delivered)
        self.refused += len(delivery.refused)
        for position, why in delivery.refused.items():
            logger.warning("refused %s: %s", batch[position].record.key, why)
        return len(batch), delivery.error


class _Conductor:
    """The process at the other end of standard input and output."""

    def __init__(self, drain_s: float) -> None:
        self.is_gone = False
        self.drain_s = drain_s
        """How long to go on after it went; its last words may be another number."""
        self._words = b""
        self._input = sys.stdin.fileno()
        # Anything else that prints must not be taken for a status.
        self._output = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        os.set_blocking(self._output, False)
        self._told: SenderStatus | None = None

    def wait(self, duration_s: float) -> None:
        """Return after this time, or at once when the conductor says goodbye."""
        if self.is_gone:
            select.select([], [], [], duration_s)
            return
        deadline = time.monotonic() + duration_s
        while (left_s := deadline - time.monotonic()) > 0:
            readable, _, _ = select.select([self._input], [], [], left_s)
            if not readable:
                continue
            words = os.read(self._input, 4096)
            self._words += words
            if not words:
                self.is_gone = True
                with contextlib.suppress(ValueError):
                    self.drain_s = float(self._words)
                return

    def tell(self, status: SenderStatus) -> None:
        """Write the status if it is news; when nobody reads, it is news again next time."""
        if status == self._told:
            return
        line = json.dumps(asdict(status)) + "\n"
        # Shorter than PIPE_BUF, so it is written whole or not at all.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._output, line.encode())
            self._told = status


def run(sender: Sender, conductor: _Conductor) -> None:
    """Send until the conductor is gone and either nothing or no time is left."""
    last_id: int | None = None
    deadline = float("inf")
    while True:
        began = time.monotonic()
        is_more = sender.send()
        conductor.tell(sender.status())
        now = time.monotonic()
        if conductor.is_gone:
            if last_id is None:
                last_id, deadline = sender.outbox.last_id(), now + conductor.drain_s
                sender.hurry()
            if now >= deadline or sender.outbox.num_pending(last_id) == 0:
                return
            rest_s = 0.05
        else:
            rest_s = min(max(_MIN_REST_S, _REST_PER_WORK * (now - began)), _MAX_REST_S)
        if not is_more:
            conductor.wait(rest_s)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as the sender process."""
    parser = argparse.ArgumentParser(prog="python -m tracking.sender", description=__doc__)
    parser.add_argument("--outbox", type=Path, required=True)
    parser.add_argument("--artifact-root", type=Path, required=True)
    parser.add_argument("--drain-seconds", type=float, default=30.0)
    parser.add_argument("--prepare", metavar="URI", help="open this destination at once")
    options = parser.parse_args(arguments)
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the conductor's to handle.
    with contextlib.suppress(OSError):
        os.nice(5)  # Training comes first.
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(name)s: %(message)s")
    conductor = _Conductor(options.drain_seconds)
    outbox = Outbox(options.outbox)
    lock = _wait_for_turn(outbox, conductor)
    if lock is None:
        return
    sender = Sender(outbox, lambda uri: _open_mlflow(uri, options.artifact_root, outbox))
    if options.prepare is not None:
        with contextlib.suppress(Exception):  # The first delivery tells.
            sender.tracker(options.prepare)
    run(sender, conductor)


def _wait_for_turn(outbox: Outbox, conductor: _Conductor) -> int | None:
    """Wait until no other sender works on the outbox; None when it leaves nothing to do."""
    path = outbox.path.with_name(outbox.path.name + ".sender")
    last_id: int | None = None
    deadline = float("inf")
    while (lock := try_lock(path)) is None:
        if conductor.is_gone:
            if last_id is None:
                last_id = outbox.last_id()
                deadline = time.monotonic() + conductor.drain_s
            if time.monotonic() >= deadline or outbox.num_pending(last_id) == 0:
                return None
        conductor.wait(0.25)
    return lock


def _open_mlflow(uri: str, artifact_root: Path, outbox: Outbox) -> Tracker:
    for name, value in _HTTP_SETTINGS.items():
        os.environ.setdefault(name, value)
    warnings.simplefilter("ignore")
    from tracking.mlflow_tracker import MlflowTracker  # noqa: PLC0415  2 s, and only here

    # Both talk on standard error about every migration, and about every trouble that we tell.
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return MlflowTracker(uri, artifact_root, files_root=outbox.path.parent)


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG


if __name__ == "__main__":
    main()
