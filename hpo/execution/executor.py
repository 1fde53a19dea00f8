"""What runs attempts. `processes.py` does it on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hpo.domain.decision import Decision
from hpo.execution.message import AttemptKey, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place for one attempt at a time."""

    index: int
    """Counts from 0 within the executor."""
    device: str
    """What the attempt trains on, as it sees it: `cpu`, `cuda:0` or `mps`."""
    visible_device: str | None
    """The identity of the GPU that the attempt alone sees, of several with commas; or None."""
    num_threads: int
    """Torch threads of the attempt, at least 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt, or several that share a process, handed over together. Plain data."""

    attempts: tuple[AttemptKey, ...]
    """Messages name one of these, never the process. One today."""
    entry_point: str
    """`package.module:function`, called with the payload and a channel."""
    payload: Mapping[str, Any]
    """Plain JSON."""
    log_path: Path
    """Receives stdout and stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """A job's process is gone. The last thing heard of it."""

    attempts: tuple[AttemptKey, ...]
    exit_code: int
    """Negative: the signal that killed it."""


Arrival = Message | JobEnded


class Executor(Protocol):
    """Runs jobs in slots.

    1. A slot never holds two jobs, in this process or another.
    2. Of each submitted job every message arrives in order, then exactly one `JobEnded`.
    3. `kill` and `close` end whole process groups; after `close` no process remains.
    4. The death of this process ends every job.
    """

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Every slot, free or not."""
        ...

    def take_slot(self) -> Slot | None:
        """Take a free slot, or return None when all are taken, here or by another process."""
        ...

    def submit(self, job: Job, slot: Slot) -> None:
        """Start a job in a slot that `take_slot` gave; the slot is free again when it ends."""
        ...

    def poll(self, timeout_s: float) -> list[Arrival]:
        """Return what arrived, waiting up to `timeout_s` for the first of it."""
        ...

    def answer(self, message: Message, decision: Decision) -> None:
        """Answer a message; a job that is gone does not hear it."""
        ...

    def kill(self, key: AttemptKey) -> None:
        """End an attempt's process group at once."""
        ...

    def close(self) -> None:
        """End everything."""
        ...
