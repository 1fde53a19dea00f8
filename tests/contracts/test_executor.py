"""The promises written in `hpo.execution.executor.Executor`, over forked and spawned processes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from hpo.domain.decision import CONTINUE, Action, Decision
from hpo.domain.trial import FailureKind
from hpo.execution.executor import Arrival, Job, JobEnded, Slot
from hpo.execution.launcher import ForkLauncher, ServerGoneError, SpawnLauncher
from hpo.execution.message import (
    AttemptKey,
    Failed,
    Finished,
    Message,
    Progress,
    Report,
    Started,
)
from hpo.execution.processes import ProcessExecutor
from hpo.execution.slots import SlotPool
from tests.fakes.processes import alive_after, descendants, is_alive

ROOT = Path(__file__).parents[2]
ENTRY_POINTS = "tests.contracts.entry_points"
DEADLINE_S = 60.0

CPU_SLOTS = tuple(
    Slot(index=index, device="cpu", visible_device=None, num_threads=1) for index in range(2)
)
GPU_SLOTS = tuple(
    Slot(index=index, device="cuda:0", visible_device=f"GPU-{index}", num_threads=1)
    for index in range(2)
)


class Jobs:
    """Runs entry points on an executor and keeps what arrives."""

    def __init__(self, executor: ProcessExecutor, folder: Path) -> None:
        self.executor = executor
        self.folder = folder
        self.arrivals: list[Arrival] = []
        self._count = 0

    def start(self, entry_point: str, **payload: Any) -> AttemptKey:
        slot = self.executor.take_slot()
        assert slot is not None
        self._count += 1
        key = AttemptKey(trial=self._count, attempt=1, token=f"token-{self._count}")
        self.executor.submit(
            Job(
                attempts=(key,),
                entry_point=entry_point if ":" in entry_point else f"{ENTRY_POINTS}:{entry_point}",
                payload=payload,
                log_path=self.folder / "logs" / f"{key.token}.log",
            ),
            slot,
        )
        return key

    def log(self, key: AttemptKey) -> str:
        return (self.folder / "logs" / f"{key.token}.log").read_text()

    def collect(self, num_ended: int) -> None:
        """Take in arrivals, answering reports, until so many jobs have ended in all."""
        deadline = time.monotonic() + DEADLINE_S
        while len(self.ends()) < num_ended:
            assert time.monotonic() < deadline, f"no end of the jobs, only {self.arrivals}"
            for arrival in self.executor.poll(1.0):
                self.arrivals.append(arrival)
                if isinstance(arrival, Message) and isinstance(arrival.body, Report):
                    reason = f"{arrival.key.token} {arrival.body.measurement.epoch}"
                    decision = Decision(action=Action.CONTINUE, reason=reason)
                    self.executor.answer(arrival, decision)

    def ends(self) -> list[JobEnded]:
        return [arrival for arrival in self.arrivals if isinstance(arrival, JobEnded)]

    def messages(self, key: AttemptKey) -> list[Message]:
        return [a for a in self.arrivals if isinstance(a, Message) and a.key == key]

    def run(self, entry_point: str, **payload: Any) -> tuple[list[Message], JobEnded]:
        """Run one job to its end; returns its messages and its end."""
        before = len(self.ends())
        key = self.start(entry_point, **payload)
        self.collect(before + 1)
        return self.messages(key), self.ends()[-1]

    def result(self, entry_point: str, **payload: Any) -> dict[str, Any]:
        """Run one job that finishes; returns its result."""
        messages, _ = self.run(entry_point, **payload)
        assert isinstance(messages[-1].body, Finished), messages
        return messages[-1].body.result

    def pids(self, num: int) -> list[int]:
        """Wait until jobs of `wait_for_ever` have told so many process IDs."""
        deadline = time.monotonic() + DEADLINE_S
        pids: list[int] = []
        while len(pids) < num:
            assert time.monotonic() < deadline
            pids += [
                arrival.body.epoch
                for arrival in self.executor.poll(1.0)
                if isinstance(arrival, Message) and isinstance(arrival.body, Progress)
            ]
        return pids


@contextlib.contextmanager
def opened(
    how: str, folder: Path, slots: Sequence[Slot] = CPU_SLOTS, preload: str = ENTRY_POINTS
) -> Iterator[Jobs]:
    launcher = ForkLauncher([preload]) if how == "fork" else SpawnLauncher()
    executor = ProcessExecutor(slots, launcher, SlotPool(tuple(slots), folder / "locks"))
    try:
        yield Jobs(executor, folder)
    finally:
        executor.close()


@pytest.fixture(params=["fork", "spawn"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return how processes are started; they find the tests' own modules."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    name: str = request.param
    return name


@pytest.fixture
def jobs(how: str, tmp_path: Path) -> Iterator[Jobs]:
    """Return jobs on an executor with two slots."""
    with opened(how, tmp_path) as jobs:
        yield jobs


# --- 2. messages and ends


def test_every_message_arrives_in_order_and_then_one_end(jobs: Jobs) -> None:
    messages, ended = jobs.run("train", epochs=3)
    assert [message.sequence for message in messages] == list(range(1, 9))
    assert [type(message.body) for message in messages] == [
        Started,
        *(Progress, Report) * 3,
        Finished,
    ]
    assert isinstance(jobs.arrivals[-1], JobEnded)
    assert (ended.exit_code, [key.token for key in ended.attempts]) == (0, ["token-1"])
    assert jobs.executor.poll(0.0) == []
    assert len(jobs.ends()) == 1


def test_answers_reach_the_attempt_that_asked(jobs: Jobs) -> None:
    keys = [jobs.start("train", epochs=20) for _ in range(2)]
    jobs.collect(2)
    for key in keys:
        body = jobs.messages(key)[-1].body
        assert isinstance(body, Finished)
        expected = [["continue", f"{key.token} {epoch}"] for epoch in range(1, 21)]
        assert body.result["answers"] == expected


def test_a_prune_is_heard(jobs: Jobs) -> None:
    key = jobs.start("train", epochs=5)
    prune = Decision(action=Action.PRUNE, reason="worse")
    deadline = time.monotonic() + DEADLINE_S
    while not jobs.ends():
        assert time.monotonic() < deadline
        for arrival in jobs.executor.poll(1.0):
            jobs.arrivals.append(arrival)
            if isinstance(arrival, Message) and isinstance(arrival.body, Report):
                jobs.executor.answer(arrival, prune)
    body = jobs.messages(key)[-1].body
    assert body == Finished(result={"answers": [["prune", "worse"]]})


@pytest.mark.parametrize(
    ("way", "exit_code"),
    [
        ("abort", -signal.SIGABRT),
        ("kill", -signal.SIGKILL),
        ("leave at once", 7),
        ("exit 3", 3),
        ("exit", 0),
        ("exit with words", 1),
    ],
)
def test_a_process_that_dies_without_a_word_is_known_by_its_exit_code(
    jobs: Jobs, way: str, exit_code: int
) -> None:
    messages, ended = jobs.run("end_badly", how=way)
    assert (messages, ended.exit_code) == ([], exit_code)
    if way != "kill":
        assert "said before the end" in jobs.log(ended.attempts[0])


@pytest.mark.parametrize(
    ("way", "failure", "text"),
    [
        ("raise", FailureKind.BUG, "ZeroDivisionError: of two"),
        ("out of memory", FailureKind.OOM, "out of memory"),
        ("out of device memory", FailureKind.OOM, "OutOfMemoryError: tried to allocate 2 GiB"),
        ("bad config", FailureKind.BAD_CONFIG, "batch_size is 0"),
        ("no json", FailureKind.BUG, "TypeError: Object of type object is not JSON serializable"),
    ],
)
def test_what_an_entry_point_raises_is_told_with_its_kind(
    jobs: Jobs, way: str, failure: FailureKind, text: str
) -> None:
    messages, ended = jobs.run("end_badly", how=way)
    body = messages[-1].body
    assert isinstance(body, Failed)
    assert (body.failure, body.text, ended.exit_code) == (failure, text, 0)
    if failure is FailureKind.BUG:
        assert "in end_badly" in body.traceback or way == "no json"
        assert body.traceback in jobs.log(ended.attempts[0])


def test_an_entry_point_that_is_not_there_fails_its_job_alone(jobs: Jobs) -> None:
    for name in ("tests.no_module:run", f"{ENTRY_POINTS}:no_function"):
        messages, _ = jobs.run(name)
        assert isinstance(messages[0].body, Failed)
    assert jobs.result("echo")["payload"] == {}


def test_an_abort_leaves_a_traceback_in_the_log(jobs: Jobs) -> None:
    _, ended = jobs.run("end_badly", how="abort")
    assert re.search(
        r'File ".*entry_points.py", line \d+ in end_badly', jobs.log(ended.attempts[0])
    )


def test_a_job_is_a_process_of_its_own_with_its_payload(jobs: Jobs) -> None:
    payload = {"text": "é\n" * 100, "list": [1, 2.5, None, True], "nested": {"a": {}}}
    assert jobs.result("echo", **payload) == {
        "payload": payload,
        "visible": None,
        "is_group_leader": True,
        "stdin": "",
    }


def test_a_payload_of_60_kb_arrives_whole(jobs: Jobs) -> None:
    text = "0123456789" * 6000
    assert jobs.result("echo", text=text)["payload"] == {"text": text}


def test_a_payload_that_is_too_large_is_refused_and_its_slot_is_free(jobs: Jobs) -> None:
    for _ in range(3):  # more often than there are slots
        with pytest.raises(ValueError, match="name large data by its path"):
            jobs.start("echo", text="0123456789" * 10000)
    assert jobs.result("echo", small=1)["payload"] == {"small": 1}


def test_a_large_log_holds_up_nobody(jobs: Jobs) -> None:
    key = jobs.start("fill_the_log", num_kib=4096)
    jobs.collect(1)
    text = jobs.log(key)
    assert len(text) > 4 << 20
    assert text.endswith("from a child\n") or "from a child\n" in text


def test_a_job_sees_only_the_gpu_of_its_slot(how: str, tmp_path: Path) -> None:
    with opened(how, tmp_path, GPU_SLOTS) as jobs:
        first, second = (jobs.start("echo") for _ in range(2))
        jobs.collect(2)
        seen = [jobs.messages(key)[-1].body for key in (first, second)]
    assert [body.result["visible"] for body in seen if isinstance(body, Finished)] == [
        "GPU-0",
        "GPU-1",
    ]


# --- 1. slots


def test_a_slot_holds_one_job_and_is_free_again_when_it_ends(jobs: Jobs) -> None:
    keys = [jobs.start("train", epochs=1) for _ in range(2)]
    assert jobs.executor.take_slot() is None
    jobs.collect(2)
    taken = [jobs.executor.take_slot() for _ in range(3)]
    assert taken == [*CPU_SLOTS, None]
    assert len(keys) == len(jobs.executor.slots) == 2


@pytest.mark.parametrize("way", ["kill", "raise", "exit"])
def test_the_slot_of_a_job_that_ended_badly_is_free_again(jobs: Jobs, way: str) -> None:
    for _ in range(3):
        jobs.run("end_badly", how=way)
    assert jobs.executor.take_slot() == CPU_SLOTS[0]


# --- 3. kill and close


def test_kill_ends_an_attempt_with_everything_it_started(jobs: Jobs) -> None:
    doomed = jobs.start("wait_for_ever")
    pids = jobs.pids(2)
    other = jobs.start("train", epochs=2)
    jobs.executor.kill(doomed)
    jobs.collect(2)
    assert {ended.attempts[0]: ended.exit_code for ended in jobs.ends()} == {
        doomed: -signal.SIGKILL,
        other: 0,
    }
    assert isinstance(jobs.messages(other)[-1].body, Finished)
    assert alive_after(pids, 10.0) == []


def test_kill_reaches_a_job_that_has_only_just_been_submitted(jobs: Jobs) -> None:
    for count in range(1, 9):
        jobs.executor.kill(jobs.start("wait_for_ever"))
        jobs.collect(count)
    assert {ended.exit_code for ended in jobs.ends()} == {-signal.SIGKILL}


def test_what_a_job_leaves_behind_ends_with_it(jobs: Jobs) -> None:
    child = jobs.result("leave_a_child")["child"]
    assert alive_after([child], 10.0) == []


def test_a_job_that_is_gone_does_not_hear_answers_or_kills(jobs: Jobs) -> None:
    messages, ended = jobs.run("train", epochs=1)
    jobs.executor.answer(messages[-1], CONTINUE)
    jobs.executor.kill(ended.attempts[0])
    assert jobs.executor.poll(0.0) == []


def test_close_leaves_no_process(how: str, tmp_path: Path) -> None:
    before = descendants()
    with opened(how, tmp_path) as jobs:
        jobs.start("wait_for_ever")
        jobs.start("wait_for_ever")
        told = jobs.pids(4)
        pids = descendants() - before
        assert set(told) <= pids
    assert alive_after(pids, 10.0) == []


def test_close_is_quiet_while_messages_are_unread(
    how: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(how, tmp_path) as jobs:
        jobs.start("train", epochs=1)
        jobs.start("end_badly", how="leave at once")
        path = tmp_path / "logs" / "token-2.log"
        deadline = time.monotonic() + DEADLINE_S
        while "said before" not in path.read_text():  # its end is told, and not read
            assert time.monotonic() < deadline
    assert capfd.readouterr().err == ""


# --- 4. the death of the executor's process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda n: n.name)
def test_the_death_of_the_executors_process_ends_every_job(
    how: str, tmp_path: Path, number: signal.Signals
) -> None:
    with executor_process(how, tmp_path) as (process, pids):
        before = descendants(process.pid)
        assert set(pids) <= before
        process.send_signal(number)
        process.wait(10)
        if how == "spawn":  # nobody is left to end what a job has started
            for child in pids[1::2]:
                os.kill(child, signal.SIGKILL)
        left = alive_after(before, 10.0)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert left == []


def test_ctrl_c_in_the_terminal_ends_neither_server_nor_jobs(how: str, tmp_path: Path) -> None:
    with executor_process(how, tmp_path) as (process, pids):
        os.killpg(process.pid, signal.SIGINT)
        servers = [child for child in psutil.Process(process.pid).children() if how == "fork"]
        for server in servers:
            server.send_signal(signal.SIGINT)  # even one that is meant for it
        out, _ = process.communicate("go on\n", timeout=30)
        assert out.split() == ["-9", "-9"]  # by the kill of the executor, later
        assert process.returncode == 0
        assert not any(map(is_alive, pids))


@contextlib.contextmanager
def executor_process(how: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.contracts.executor_process", how, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal gives each command a process group
    )
    with process:
        try:
            assert process.stdout is not None
            yield process, [int(pid) for pid in process.stdout.readline().split()]
        finally:
            process.kill()


# --- the warm server


def test_a_child_may_use_two_threads_after_the_server_preloaded_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with opened("fork", tmp_path, preload="torch") as jobs:
        for _ in range(2):
            result = jobs.result("multiply_on_two_threads")
            assert result == {"threads": 2, "sum": pytest.approx(700.0**3)}


def test_a_server_that_cannot_import_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with (
        opened("fork", tmp_path, preload="tests.no_module") as jobs,
        pytest.raises(ServerGoneError, match="starts trials ended with exit code 1"),
    ):
        jobs.start("echo")
    assert "No module named 'tests.no_module'" in capfd.readouterr().err


def test_the_death_of_the_server_is_told_and_close_ends_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    before = descendants()
    with opened("fork", tmp_path) as jobs:
        jobs.start("wait_for_ever")
        told = jobs.pids(2)
        pids = descendants() - before
        (server,) = {psutil.Process(pid).ppid() for pid in told} & pids - set(told)
        os.kill(server, signal.SIGKILL)
        with pytest.raises(ServerGoneError, match="killed by SIGKILL; is there enough memory"):
            jobs.collect(1)
    assert alive_after(pids, 10.0) == []
