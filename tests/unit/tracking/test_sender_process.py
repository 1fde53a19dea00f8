"""The real sender process, killed and starved of its server."""

import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tracking.file_lock import try_lock
from tracking.outbox import Outbox
from tracking.records import (
    Destination,
    MetricsLogged,
    Record,
    RunEnded,
    RunStarted,
    TagsSet,
)
from tracking.sender_process import SenderProcess

pytestmark = pytest.mark.slow

LOCAL = Destination(uri="sqlite:///mlflow.db", experiment="e")
DEADLINE_S = 60.0


def wait_for(condition: Callable[[], object], what: str, poll_s: float = 0.02) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {DEADLINE_S} s"
        time.sleep(poll_s)


def study(num_trials: int, num_epochs: int = 12) -> list[Record]:
    records: list[Record] = [
        RunStarted(run_key="u", name="u", parent_key=None, tags={}, params={}, at_ms=1)
    ]
    for number in range(num_trials):
        key = f"u/{number}"
        start = RunStarted(
            run_key=key, name=key, parent_key="u", tags={"a": "1"}, params={"lr": 0.1}, at_ms=2
        )
        epochs = [
            MetricsLogged(run_key=key, values={"a": step / 7, "b": 1.0}, step=step, at_ms=step)
            for step in range(num_epochs)
        ]
        end = RunEnded(run_key=key, status="FINISHED", at_ms=99)
        records += [start, *epochs, TagsSet(run_key=key, tags={"a": "2"}, at_ms=98), end]
    return [*records, RunEnded(run_key="u", status="KILLED", at_ms=100)]


def query(database: Path, text: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database, timeout=30)) as connection:
        return connection.execute(text).fetchall()


def check_store(database: Path, num_trials: int, num_epochs: int = 12) -> None:
    runs = query(database, "SELECT value, status, end_time FROM runs JOIN tags USING (run_uuid) "
                           "WHERE key = 'hpo.run_key' ORDER BY value")  # fmt: skip
    trials = sorted(f"u/{number}" for number in range(num_trials))
    assert runs == [("u", "KILLED", 100), *((key, "FINISHED", 99) for key in trials)]
    nested = query(database, "SELECT count(*) FROM tags WHERE key = 'mlflow.parentRunId'")
    assert nested == [(num_trials,)]
    points = query(database, "SELECT run_uuid, key, step, value, timestamp FROM metrics")
    assert len(points) == len(set(points)) == 2 * num_trials * num_epochs
    tags = query(database, "SELECT DISTINCT value FROM tags WHERE key = 'a'")
    assert tags == [("2",)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def outbox(home: Path) -> Iterator[Outbox]:
    with Outbox(home / "outbox.db") as opened:
        yield opened


@pytest.fixture
def make_sender(home: Path) -> Iterator[Callable[[], SenderProcess]]:
    made: list[SenderProcess] = []

    def make(uri: str | None = None) -> SenderProcess:
        sender = SenderProcess(home / "outbox.db", home / "mlartifacts", home / "sender.log", uri)
        made.append(sender)
        sender.start()
        return sender

    yield make
    for sender in made:
        sender.stop()


def test_a_sender_killed_over_and_over_delivers_everything_once(
    home: Path, outbox: Outbox, make_sender: Callable[[], SenderProcess]
) -> None:
    database, records = home / "mlflow.db", study(13)
    chance = random.Random(7)  # noqa: S311  it chooses moments to kill
    num_killed_at_work = 0
    for _ in range(5):
        outbox.forget("u")  # So that every round repeats what earlier ones delivered.
        outbox.append(LOCAL, records)
        sender = make_sender()
        wait_for(database.exists, "database")
        with closing(sqlite3.connect(database, timeout=30)) as reader:
            commits = [reader.execute("PRAGMA data_version").fetchone()]
            num_commits = chance.randint(1, 50)

            def has_committed() -> bool:
                version = reader.execute("PRAGMA data_version").fetchone()
                if version != commits[-1]:  # noqa: B023
                    commits.append(version)  # noqa: B023
                return len(commits) > num_commits or outbox.num_pending() == 0  # noqa: B023

            wait_for(has_committed, "commit", poll_s=0.0005)
        pid = sender.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: sender.pid is None, "end of the killed sender")  # noqa: B023
        num_killed_at_work += outbox.num_pending() > 0
    assert num_killed_at_work >= 3
    sender = make_sender()
    result = sender.drain(DEADLINE_S)
    assert (result.pending, result.error) == (0, None)
    check_store(database, 13)


def test_a_server_that_is_silent_then_gone_then_back_gets_everything(
    home: Path,
    outbox: Outbox,
    make_sender: Callable[[], SenderProcess],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    silent = socket.create_server(("127.0.0.1", 0))
    port = silent.getsockname()[1]
    outbox.append(Destination(uri=f"http://127.0.0.1:{port}", experiment="e"), study(1))
    outbox.append(LOCAL, study(1))
    sender = make_sender()

    def error() -> str:
        status = sender.status()
        return (status and status.error) or ""

    wait_for(lambda: "timeout" in error(), "timeout")
    silent.close()
    wait_for(lambda: "refused" in error(), "refusal")
    wait_for(lambda: len(outbox.waiting()) == 1, "delivery to the living store")
    check_store(home / "mlflow.db", 1)
    served = home / "served.db"
    with (
        closing(sqlite3.connect(home / "mlflow.db")) as local,
        closing(sqlite3.connect(served)) as copy,
    ):
        local.backup(copy)
        copy.executescript(
            "DELETE FROM metrics; DELETE FROM latest_metrics; DELETE FROM params; "
            "DELETE FROM tags; DELETE FROM runs; DELETE FROM experiment_tags; "
            "DELETE FROM experiments WHERE name = 'e';"
        )
    code = f"from mlflow.server import app; app.run(port={port})"
    environment = os.environ | {
        "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{served}",
        "_MLFLOW_SERVER_ARTIFACT_ROOT": str(home / "served"),
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=log, stderr=log
        )
    try:
        wait_for(lambda: outbox.num_pending() == 0, "delivery to the server that came back")
    finally:
        server.kill()
        server.wait()
    check_store(served, 1)
    assert sender.drain(DEADLINE_S).pending == 0


def test_a_drain_that_cannot_end_says_why_and_keeps_the_records(
    outbox: Outbox, make_sender: Callable[[], SenderProcess]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    outbox.append(Destination(uri=f"http://127.0.0.1:{port}", experiment="e"), study(1))
    sender = make_sender()
    wait_for(lambda: (status := sender.status()) and status.error, "error")
    result = sender.drain(0.2)
    assert result.pending == len(study(1))
    assert "refused" in (result.error or "")
    assert sender.pid is None


def test_two_senders_take_turns(
    home: Path, outbox: Outbox, make_sender: Callable[[], SenderProcess]
) -> None:
    first = make_sender()
    wait_for(first.status, "word of the first sender")
    second = make_sender()
    assert first.drain(DEADLINE_S).pending == 0
    wait_for(second.status, "turn of the second sender")
    third = make_sender()
    outbox.append(LOCAL, study(2))
    assert third.drain(DEADLINE_S).pending == 0, "it waits for the other to deliver"
    assert second.drain(DEADLINE_S).pending == 0
    check_store(home / "mlflow.db", 2)


def test_the_database_is_made_before_the_first_record(
    home: Path, make_sender: Callable[[str], SenderProcess]
) -> None:
    sender = make_sender("sqlite:///mlflow.db")
    wait_for(sender.status, "first word")
    assert query(home / "mlflow.db", "SELECT name FROM experiments") == [("Default",)]
    assert sender.drain(DEADLINE_S).pending == 0
    assert (home / "sender.log").read_text() == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills with the parent")
def test_a_sender_dies_with_its_conductor(home: Path, outbox: Outbox) -> None:
    code = (
        "import sys; from pathlib import Path; from tracking.sender_process import SenderProcess\n"
        "home = Path(sys.argv[1])\n"
        "sender = SenderProcess(home / 'outbox.db', home / 'a', home / 'log')\n"
        "sender.start()\n"
        "while sender.status() is None: pass\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()"
    )
    lock = home / "outbox.db.sender"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as conductor:
        assert conductor.stdout is not None
        assert conductor.stdout.readline() == b"ready\n"
        assert try_lock(lock) is None
        outbox.append(Destination(uri="http://127.0.0.1:9", experiment="e"), study(1))
        conductor.kill()
    held: list[int] = []

    def is_free() -> bool:
        descriptor = try_lock(lock)
        held.extend([] if descriptor is None else [descriptor])
        return descriptor is not None

    wait_for(is_free, "end of the sender")
    os.close(held[0])
