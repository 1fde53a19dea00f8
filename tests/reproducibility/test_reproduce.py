"""`hpo reproduce` on real trials: what it confirms, and what it finds out."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hpo
import tracking

SWEEP = """
study: again
strategy: random
baseline: {data: digits, epochs: 16, batch_size: 64, lr: 3e-3, augment: 0.3, width: 16}
vary:
  lr: {low: 1e-5, high: 1e-2, log: true}
  width: [8, 16]
pruner: {name: asha, min_epochs: 1, reduction_factor: 2}
budget: {trials: 6}
"""


class Place:
    """A folder with a copy of the sources, in which the command is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sources = folder / "sources"
        for package in (hpo, tracking):
            source = Path(str(package.__file__)).parent
            shutil.copytree(
                source, self.sources / source.name, ignore=shutil.ignore_patterns("__pycache__")
            )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "hpo", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.sources)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            stdout, stderr = process.communicate(timeout=300)
        assert "Traceback" not in stderr
        return process.returncode, stdout, stderr

    def trials(self) -> list[dict[str, object]]:
        trials: list[dict[str, object]] = json.loads(self.run("status", "again", "--json")[1])[
            "trials"
        ]
        return trials

    def reproduce(self, trial: str, *options: str) -> tuple[int, dict[str, object]]:
        code, stdout, stderr = self.run("reproduce", trial, "--json", *options)
        assert stdout, stderr
        return code, json.loads(stdout)


def wait_for_an_epoch(database: Path) -> None:
    """Wait until a first epoch of the study is on record."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            if connection.execute("SELECT count(*) FROM hpo_measurements").fetchone()[0]:
                return
    pytest.fail("no epoch was measured in a minute")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A study that was interrupted once and finished by a second run."""
    place = Place(tmp_path_factory.mktemp("again"))
    (place.folder / "again.yaml").write_text(SWEEP)
    with place.start("run", "again.yaml") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "workers on" in line:
                break
        wait_for_an_epoch(place.folder / "runs/hpo.db")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        assert process.returncode == 130
    code, _, stderr = place.run("run", "again.yaml")
    assert code == 0, stderr
    return place


def of_state(place: Place, state: str) -> str:
    return next(str(t["trial"]) for t in place.trials() if t["state"] == state)


def test_a_complete_trial_is_identical(place: Place) -> None:
    code, result = place.reproduce(of_state(place, "COMPLETE"))
    assert (code, result["identical"], result["num_epochs"]) == (0, True, 16)


def test_a_pruned_trial_ends_at_its_recorded_epoch(place: Place) -> None:
    trial = next(t for t in place.trials() if t["state"] == "PRUNED")
    code, result = place.reproduce(str(trial["trial"]))
    assert (code, result["num_epochs"]) == (0, trial["epochs"])


def test_a_resumed_trial_is_identical_to_an_uninterrupted_one(place: Place) -> None:
    resumed = [str(t["trial"]) for t in place.trials() if int(str(t["attempts"])) > 1]
    assert resumed, "the interruption hit no running trial"
    assert place.reproduce(resumed[0])[0] == 0


def test_an_edit_of_the_model_is_named_and_does_not_matter_unless_asked(place: Place) -> None:
    trial = of_state(place, "COMPLETE")
    model = place.sources / "hpo/training/models/simple_cnn.py"
    text = model.read_text()
    assert "kernel_size=3" in text
    model.write_text(text.replace("kernel_size=3, padding=1", "kernel_size=5, padding=2"))
    try:
        code, result = place.reproduce(trial)
        assert code == 0
        assert result["edited_files"] == ["edited: hpo/training/models/simple_cnn.py"]
        code, result = place.reproduce(trial, "--current-code")
        assert code == 5
        assert result["difference"]["epoch"] == 1  # type: ignore[index]
    finally:
        model.write_text(text)


@pytest.mark.parametrize("stream", ["init", "data_order", "augmentation", "dropout", "split"])
def test_one_altered_seed_is_found_and_named(place: Place, stream: str) -> None:
    trial = of_state(place, "COMPLETE")
    lineage = place.folder / "runs/trials" / trial / "lineage.json"
    text = lineage.read_text()
    document = json.loads(text)
    document["seeds"][stream] += 1
    lineage.write_text(json.dumps(document))
    try:
        code, result = place.reproduce(trial)
    finally:
        lineage.write_text(text)
    assert code == 5
    assert any(stream in line for line in result["surroundings"])  # type: ignore[attr-defined]


def test_code_that_is_gone_or_changed_is_refused(place: Place) -> None:
    trial = of_state(place, "COMPLETE")
    (stored,) = (place.folder / "runs/code").iterdir()
    loop = stored / "hpo/training/loop.py"
    text = loop.read_text()
    loop.write_text(text + "\n")
    try:
        code, _, stderr = place.run("reproduce", trial)
        assert (code, "was changed since" in stderr) == (5, True)
    finally:
        loop.write_text(text)
    stored.rename(stored.with_name("elsewhere"))
    try:
        code, _, stderr = place.run("reproduce", trial)
        assert (code, "--current-code" in stderr) == (5, True)
    finally:
        stored.with_name("elsewhere").rename(stored)


def test_a_reproduction_cannot_read_what_the_trial_left(place: Place) -> None:
    trial = of_state(place, "COMPLETE")
    loop = place.sources / "hpo/training/loop.py"
    text = loop.read_text()
    spy = f'    open("{place.folder}/runs/trials/{trial}/lineage.json").read()\n'
    start = text.index("    if resume is not None:\n        keeper.restore")
    loop.write_text(text[:start] + spy + text[start:])
    try:
        code, _, stderr = place.run("reproduce", trial, "--current-code")
    finally:
        loop.write_text(text)
    assert code == 5
    assert "must not read" in stderr


def test_a_lineage_that_is_gone_is_made_from_the_ledger(place: Place) -> None:
    trial = of_state(place, "COMPLETE")
    lineage = place.folder / "runs/trials" / trial / "lineage.json"
    hidden = lineage.rename(lineage.with_suffix(".hidden"))
    try:
        assert place.reproduce(trial)[0] == 0
    finally:
        hidden.rename(lineage)
