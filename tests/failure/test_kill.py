"""Real studies whose processes are killed: nothing is lost, nothing runs twice, nothing is left.

What is on record is read with `sqlite3` alone, so that no mistake of ours hides another.
"""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes.processes import alive_after

pytestmark = pytest.mark.slow

DEADLINE_S = 120.0

SWEEP = """
study: kill
baseline: {data: digits, model: simple_cnn, epochs: 4, batch_size: 16, lr: 1e-3, width: 8}
vary:
  lr: [3e-4, 1e-3, 3e-3, 1e-2]
execution: {workers: 2}
"""
NUM_TRIALS, NUM_EPOCHS = 4, 4


class Home:
    """A home with one study, and the processes that work in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sweep = root.with_suffix(".yaml")
        self.sweep.write_text(SWEEP)

    def start(self) -> subprocess.Popen[str]:
        """Start `hpo run`."""
        return subprocess.Popen(
            [sys.executable, "-m", "hpo", "run", str(self.sweep)],
            cwd=self.root.parent,
            env={**os.environ, "HPO_HOME": str(self.root)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @contextlib.contextmanager
    def running(self, until: Callable[[], bool]) -> Iterator[subprocess.Popen[str]]:
        """Start `hpo run` and wait until it has come so far."""
        with self.start() as process:
            try:
                self.wait(process, until)
                yield process
            finally:
                process.kill()

    @staticmethod
    def wait(process: subprocess.Popen[str], until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not until():
            assert time.monotonic() < deadline, "it did not come so far in time"
            if process.poll() is not None:
                pytest.fail(f"it ended before: {process.communicate()[1]}")
            time.sleep(0.02)

    def run(self) -> None:
        """Run `hpo run` to its end, which must be a good one."""
        with self.start() as process:
            out, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, out + err

    def select(self, query: str) -> list[tuple[Any, ...]]:
        """Read the ledger as anybody can."""
        path = self.root / "hpo.db"
        if not path.exists():
            return []
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            try:
                return connection.execute(query).fetchall()
            except sqlite3.OperationalError:  # its tables are about to be made
                return []

    def states(self) -> list[str]:
        return [row[0] for row in self.select("SELECT state FROM trials ORDER BY number")]

    def num_measured(self) -> int:
        return len(self.select("SELECT 1 FROM trial_intermediate_values"))

    def weights(self) -> dict[int, str]:
        return dict(self.select("SELECT number, weights_sha256 FROM hpo_trials"))

    def is_in_the_middle(self) -> bool:
        """Whether a trial is done, one runs and has measured, and one has not begun."""
        states = self.states()
        return {"COMPLETE", "RUNNING", "WAITING"} <= set(
            states
        ) and self.num_measured() > NUM_EPOCHS * states.count("COMPLETE")

    def processes(self) -> list[int]:
        """Return every process that works in this home."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("HPO_HOME") == str(self.root):
                    found.append(process.pid)
        return found

    def assert_whole(self) -> None:
        """Hold the study to its plan: each point done once, each epoch on record once."""
        assert self.states() == ["COMPLETE"] * NUM_TRIALS
        assert len(set(self.select("SELECT config_id FROM hpo_trials"))) == NUM_TRIALS
        steps = self.select(
            "SELECT number, step FROM trial_intermediate_values JOIN trials USING (trial_id)"
        )
        expected = [(n, epoch) for n in range(NUM_TRIALS) for epoch in range(1, NUM_EPOCHS + 1)]
        assert sorted(steps) == expected
        assert self.select("SELECT note FROM hpo_notes") == []
        assert self.select("SELECT count(*) FROM hpo_attempts WHERE ended_at IS NULL") == [(0,)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home of the test's own."""
    return Home(tmp_path / "runs")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Return the digest of each trial's weights when nothing happens."""
    home = Home(tmp_path_factory.mktemp("uninterrupted") / "runs")
    home.run()
    home.assert_whole()
    return home.weights()


def test_a_study_goes_on_where_its_killed_conductor_left_it(
    home: Home, uninterrupted: dict[int, str]
) -> None:
    with home.running(until=home.is_in_the_middle) as process:
        pids = home.processes()
        assert len(pids) >= 3  # conductor, server, sender, and attempts that come and go
        process.kill()
        process.wait()
        assert alive_after(pids, 10.0) == []
    done = home.select("SELECT number FROM trials WHERE state = 'COMPLETE'")
    attempts = "SELECT count(*) FROM hpo_attempts JOIN trials USING (trial_id) WHERE number = "
    assert done
    home.run()
    home.assert_whole()
    assert all(home.select(f"{attempts} {number}") == [(1,)] for (number,) in done)
    assert home.weights() == uninterrupted
    assert alive_after(home.processes(), 10.0) == []


def test_a_killed_attempt_fails_its_trial_alone(home: Home) -> None:
    with home.running(until=lambda: home.num_measured() >= 2) as process:
        attempts = [
            child
            for server in psutil.Process(process.pid).children()
            if "hpo.execution.warm_server" in server.cmdline()
            for child in server.children()
        ]
        attempts[0].kill()
        out, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, out + err
    assert sorted(home.states()) == ["COMPLETE"] * (NUM_TRIALS - 1) + ["FAIL"]
    assert home.select("SELECT failure, reason FROM hpo_trials WHERE failure IS NOT NULL") == [
        ("crash", "its process was killed by SIGKILL")
    ]
    assert alive_after(home.processes(), 10.0) == []


def test_ctrl_c_and_a_second_run_train_the_weights_of_an_uninterrupted_run(
    home: Home, uninterrupted: dict[int, str]
) -> None:
    with home.running(until=home.is_in_the_middle) as process:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 130
        assert "hpo resume kill" in err
    assert "RUNNING" not in home.states()
    assert home.states().count("COMPLETE") < NUM_TRIALS
    assert alive_after(home.processes(), 10.0) == []
    home.run()
    home.assert_whole()
    assert home.weights() == uninterrupted


def test_a_second_run_of_a_running_study_is_refused_by_the_owners_name(home: Home) -> None:
    with home.running(until=lambda: home.num_measured() > 0) as owner:
        with home.start() as second:
            _, err = second.communicate(timeout=DEADLINE_S)
        assert second.returncode == 6
        assert f"kill is being run by process {owner.pid}" in err
        owner.send_signal(signal.SIGTERM)
        owner.communicate(timeout=DEADLINE_S)
        assert owner.returncode == 130
    assert "RUNNING" not in home.states()
    assert "FAIL" not in home.states()
