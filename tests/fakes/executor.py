"""An executor whose jobs are generators in virtual time: no process, no waiting."""

import heapq
import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass

from hpo.domain.decision import CONTINUE, Decision
from hpo.execution.executor import Arrival, Job, JobEnded, Slot
from hpo.execution.message import AttemptKey, Body, Message
from tests.fakes.clock import FakeClock


@dataclass(frozen=True, slots=True)
class Work:
    """Takes time."""

    duration_s: float


@dataclass(frozen=True, slots=True)
class Tell:
    """Says something that needs no answer."""

    body: Body


@dataclass(frozen=True, slots=True)
class Ask:
    """Says something and waits; the decision is what `yield` returns."""

    body: Body


Script = Generator[Work | Tell | Ask, Decision, int]
"""What a job does, step by step; returns its exit code."""


@dataclass(slots=True)
class _Running:
    job: Job
    slot: Slot
    script: Script
    sequence: int = 0
    has_begun: bool = False
    is_over: bool = False


class ScriptedExecutor:
    """Fulfils `Executor`; `poll` moves the clock to whatever happens next."""

    def __init__(self, num_slots: int, clock: FakeClock, script: Callable[[Job], Script]) -> None:
        self._slots = tuple(
            Slot(index=index, device="cpu", visible_device=None, num_threads=1)
            for index in range(num_slots)
        )
        self._free = list(self._slots)
        self._clock = clock
        self._script = script
        self._running: dict[str, _Running] = {}
        self._order = itertools.count()
        self._agenda: list[tuple[float, int, _Running, Decision]] = []
        self.submitted: list[Job] = []
        self.killed: list[AttemptKey] = []

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Every slot, free or not."""
        return self._slots

    def take_slot(self) -> Slot | None:
        """Take a free slot."""
        return self._free.pop(0) if self._free else None

    def submit(self, job: Job, slot: Slot) -> None:
        """Start a job."""
        running = _Running(job, slot, self._script(job))
        self._running[job.attempts[0].token] = running
        self.submitted.append(job)
        self._plan(running, 0.0)

    def poll(self, timeout_s: float) -> list[Arrival]:
        """Return what happens next, if it does so in time."""
        deadline_s = self._clock.monotonic() + timeout_s
        while self._agenda and self._agenda[0][0] <= deadline_s:
            at_s, _, running, decision = heapq.heappop(self._agenda)
            self._clock.sleep(max(0.0, at_s - self._clock.monotonic()))
            arrivals = self._go_on(running, decision)
            if arrivals:
                return arrivals
        self._clock.sleep(deadline_s - self._clock.monotonic())
        return []

    def answer(self, message: Message, decision: Decision) -> None:
        """Let the job that asked go on."""
        running = self._running.get(message.key.token)
        if running is not None and message.sequence == running.sequence:
            self._plan(running, 0.0, decision)

    def kill(self, key: AttemptKey) -> None:
        """End a job; its end is the next thing it is heard of."""
        running = self._running.get(key.token)
        if running is not None and key not in self.killed:
            self.killed.append(key)
            running.script.close()
            running.script, running.has_begun = killed(), False
            self._plan(running, 0.0)

    def close(self) -> None:
        """End everything."""
        self._running.clear()
        self._agenda.clear()

    def _plan(self, running: _Running, in_s: float, decision: Decision = CONTINUE) -> None:
        entry = (self._clock.monotonic() + in_s, next(self._order), running, decision)
        heapq.heappush(self._agenda, entry)

    def _go_on(self, running: _Running, decision: Decision) -> list[Arrival]:
        if running.is_over:
            return []
        arrivals: list[Arrival] = []
        try:
            while True:
                step = running.script.send(decision) if running.has_begun else next(running.script)
                running.has_begun = True
                if isinstance(step, Work):
                    self._plan(running, step.duration_s)
                    return arrivals
                running.sequence += 1
                key = running.job.attempts[0]
                arrivals.append(Message(key=key, sequence=running.sequence, body=step.body))
                if isinstance(step, Ask):
                    return arrivals
        except StopIteration as end:
            running.is_over = True
            del self._running[running.job.attempts[0].token]
            self._free.append(running.slot)
            ended = JobEnded(attempts=running.job.attempts, exit_code=end.value)
            return [*arrivals, ended]


def killed() -> Script:
    """Do nothing and end as a killed process does."""
    yield from ()
    return -9
