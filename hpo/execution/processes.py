"""Runs each attempt in a fresh process on this machine."""

import contextlib
import os
import selectors
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from hpo.domain.decision import Decision
from hpo.execution.channel import LineBuffer
from hpo.execution.executor import Arrival, Job, JobEnded, Slot
from hpo.execution.launcher import Launcher
from hpo.execution.message import Answer, AttemptKey, Message
from hpo.execution.slots import SlotPool

REAP_INTERVAL_S = 0.05
"""How often a launcher is asked for ended processes when it has no descriptor to wait on."""


@dataclass(slots=True, kw_only=True)
class _Running:
    """A job whose process lives, or whose last words are still to be read."""

    job: Job
    slot: Slot
    pid: int
    connection: socket.socket
    buffer: LineBuffer
    exit_code: int | None = None


class ProcessExecutor:
    """Keeps the promises of `Executor` with local processes."""

    def __init__(self, slots: Sequence[Slot], launcher: Launcher, pool: SlotPool) -> None:
        self._slots = tuple(slots)
        self._launcher = launcher
        self._pool = pool
        self._running: dict[str, _Running] = {}
        self._selector = selectors.DefaultSelector()
        if launcher.descriptor is not None:
            self._selector.register(launcher.descriptor, selectors.EVENT_READ, None)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Every slot, free or not."""
        return self._slots

    def take_slot(self) -> Slot | None:
        """Take a free slot, or return None when all are taken, here or by another process."""
        return self._pool.take()

    def submit(self, job: Job, slot: Slot) -> None:
        """Start a job in a slot that `take_slot` gave."""
        ours, theirs = socket.socketpair()
        job.log_path.parent.mkdir(parents=True, exist_ok=True)
        log = os.open(job.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        descriptors = [theirs.fileno(), log, *self._pool.lock_descriptors(slot)]
        environment = {}
        if slot.visible_device is not None:
            environment["CUDA_VISIBLE_DEVICES"] = slot.visible_device
        try:
            pid = self._launcher.start(job, environment, descriptors)
        except BaseException:
            ours.close()
            self._pool.release(slot)
            raise
        finally:
            theirs.close()
            os.close(log)
        running = _Running(job=job, slot=slot, pid=pid, connection=ours, buffer=LineBuffer())
        self._running[job.attempts[0].token] = running
        self._selector.register(ours, selectors.EVENT_READ, running)

    def poll(self, timeout_s: float) -> list[Arrival]:
        """Return what arrived, waiting up to `timeout_s` for the first of it."""
        if self._launcher.descriptor is None:
            timeout_s = min(timeout_s, REAP_INTERVAL_S)
        arrivals: list[Arrival] = []
        for key, _ in self._selector.select(timeout_s):
            if key.data is not None:
                arrivals += self._read(key.data)
        codes = dict(self._launcher.ended())
        for running in list(self._running.values()):
            running.exit_code = codes.get(running.pid, running.exit_code)
            if running.exit_code is not None:
                arrivals += self._last_words(running)
        return arrivals

    def _read(self, running: _Running) -> list[Message]:
        try:
            data = running.connection.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        if not data:  # it closed its end and is about to be reported as ended
            self._selector.unregister(running.connection)
            running.connection.close()
            return []
        return [Message.from_line(line) for line in running.buffer.feed(data)]

    def _last_words(self, running: _Running) -> list[Arrival]:
        """Read what an ended process still said, then report its end and free its slot."""
        arrivals: list[Arrival] = []
        while running.connection.fileno() != -1:
            running.connection.settimeout(0)
            try:
                arrivals += self._read(running)
            except BlockingIOError:  # a grandchild holds the line open; nothing more will come
                self._selector.unregister(running.connection)
                running.connection.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(running.pid, signal.SIGKILL)  # what it left behind in its process group
        del self._running[running.job.attempts[0].token]
        self._pool.release(running.slot)
        ended = JobEnded(attempts=running.job.attempts, exit_code=running.exit_code or 0)
        return [*arrivals, ended]

    def answer(self, message: Message, decision: Decision) -> None:
        """Answer a message; a job that is gone does not hear it."""
        running = self._running.get(message.key.token)
        if running is not None:
            answer = Answer(sequence=message.sequence, decision=decision)
            with contextlib.suppress(OSError):
                running.connection.sendall(answer.to_line())

    def kill(self, key: AttemptKey) -> None:
        """End an attempt's process group at once."""
        running = self._running.get(key.token)
        if running is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)

    def close(self) -> None:
        """End everything."""
        for running in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.connection.close()
            self._pool.release(running.slot)
        self._running.clear()
        self._launcher.close()
        self._selector.close()
