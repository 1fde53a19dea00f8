"""The practitioner's verbs as users meet them: preflight, diagnosis, lr-find, evaluate, doctor."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_verbs import hpo

SWEEP = """
study: small
baseline: {data: digits, model: mlp, epochs: 3, batch_size: 128, lr: 1e-3}
vary:
  lr: [1e-3, 1e12]
"""

MODEL = """
import torch
from torch import nn

class Odd(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 32))
        self.head = nn.Linear(32, num_classes)

    def forward(self, images):
        HERE
        return self.head(self.body(images))

def odd(num_classes, image_shape, config):
    return Odd(num_classes)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep file and a finished study of it, one trial of which diverged."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "small.yaml").write_text(SWEEP)
    told = hpo("run", "small.yaml", cwd=folder).stderr
    (folder / "told.txt").write_text(told)
    return folder


def answer(place: Path, *arguments: str) -> Any:
    return json.loads(hpo(*arguments, "--json", cwd=place).stdout)


def write_model(folder: Path, line: str = "pass") -> None:
    (folder / "odd.py").write_text(MODEL.replace("HERE", line))
    (folder / "odd.yaml").write_text(SWEEP.replace("model: mlp", "model: odd:odd"))


def test_a_run_tells_of_its_preflight(place: Path) -> None:
    told = (place / "told.txt").read_text()
    assert "preflight: 64 images, loss" in told
    assert "checkpoint equal" in told


def test_a_finding_is_in_the_log_the_ledger_the_status_and_mlflow(place: Path) -> None:
    begin = "diverged: train_loss is nan in batch"
    assert begin in hpo("logs", "small/1", cwd=place).stdout
    trials = answer(place, "status", "small")["trials"]
    assert trials[0]["notes"] == []
    (note,) = trials[1]["notes"]
    assert note.startswith(begin)
    assert "lower lr" in note
    shown = hpo("status", "small", cwd=place).stdout
    assert f"small/1  {begin}" in shown
    assert max(map(len, shown.splitlines())) <= 100
    with sqlite3.connect(place / "runs/mlflow.db") as store:
        rows = store.execute("select value from tags where key = 'hpo.diagnosis.diverged'")
        assert next(value for (value,) in rows) == note.removeprefix("diverged: ")
    store.close()


def test_evaluate_repeats_what_was_recorded_of_the_best_epoch(place: Path) -> None:
    result = answer(place, "evaluate", "small/0")
    recorded = answer(place, "status", "small")["trials"][0]
    assert result["epoch"] == recorded["best_epoch"] == 3
    assert result["scores"]["loss"] == result["recorded"]["loss"] == recorded["val_loss"]
    assert 0.5 < result["scores"]["accuracy"] <= 1


def test_reading_the_test_split_is_said_and_put_on_record(place: Path) -> None:
    before = answer(place, "status", "small")["trials"][0]["notes"]
    result = hpo("evaluate", "small/0", "--split", "test", cwd=place)
    assert "the test split was read" in result.stdout
    after = answer(place, "status", "small")["trials"][0]["notes"]
    assert len(after) == len(before) + 1
    assert "test split was read" in after[-1]


def test_a_trial_without_a_checkpoint_is_not_evaluated(place: Path) -> None:
    result = hpo("evaluate", "small/1", cwd=place, is_ok=False)
    assert result.returncode == 4
    assert "small/1 has no checkpoint; it is FAIL" in result.stderr


def test_a_model_that_does_not_fit_is_told_before_any_trial(tmp_path: Path) -> None:
    write_model(tmp_path, "images = images[..., :7]")
    refused = hpo("run", "odd.yaml", cwd=tmp_path, is_ok=False)
    assert refused.returncode == 2
    for part in ("the baseline does not train", "at network.body.1 Linear", "1x56 -> fails"):
        assert part in refused.stderr
    assert "1x1x8x7 -> 1x56" in refused.stderr
    assert answer(tmp_path, "list") == []  # so that the mended file can be run


def test_a_preflight_can_be_left_out(tmp_path: Path) -> None:
    text = SWEEP.replace("lr: 1e-3}", "lr: 1e-12}").replace("[1e-3, 1e12]", "[1e-12, 1e-13]")
    (tmp_path / "slow.yaml").write_text(text)
    hpo("run", "slow.yaml", "--no-preflight", cwd=tmp_path)
    notes = [trial["notes"] for trial in answer(tmp_path, "status")["trials"]]
    assert all(note.startswith("dead learning rate: ") for (note,) in notes)
    assert len(notes) == 2


def test_a_breakpoint_in_a_model_is_reached(tmp_path: Path) -> None:
    write_model(tmp_path, "breakpoint()")
    (tmp_path / "stop.py").write_text("def here():\n    raise SystemExit(17)\n")
    result = subprocess.run(
        [sys.executable, "-m", "hpo", "run", "odd.yaml", "--inline"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONBREAKPOINT": "stop.here", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 17, result.stderr


def test_debug_alone_is_refused(place: Path) -> None:
    result = hpo("run", "small.yaml", "--debug", cwd=place, is_ok=False)
    assert result.returncode == 2
    assert "--inline --debug" in result.stderr


def test_lr_find_suggests_a_range_that_can_be_pasted(place: Path, tmp_path: Path) -> None:
    found = answer(place, "lr-find", "small.yaml", "--steps", "120")
    assert found["low"] < 3e-3 < found["high"] < 1
    lines = SWEEP.strip().splitlines()
    (tmp_path / "pasted.yaml").write_text("\n".join([*lines[:-1], f"  {found['vary']}"]))
    assert (
        "valid"
        in hpo(
            "validate",
            "pasted.yaml",
            "--set",
            "strategy=random",
            "--set",
            "budget.trials=4",
            cwd=tmp_path,
        ).stdout
    )
    assert found["losses"]
    refused = hpo("lr-find", "small.yaml", "--range", "1", "0.1", cwd=place, is_ok=False)
    assert refused.returncode == 2


def test_doctor_tries_everything_and_changes_nothing(tmp_path: Path) -> None:
    document = answer(tmp_path, "doctor")
    assert document["is_fit"]
    checks = {check["name"]: check for check in document["checks"]}
    wanted = {"python", "packages", "cores", "home", "disk", "ledger", "torch", "mlflow", "speed"}
    assert wanted | {"process start", "kernels on cpu"} <= set(checks)
    assert {check["verdict"] for check in checks.values()} <= {"ok", "warning"}
    assert all(check["remedy"] for check in checks.values() if check["verdict"] != "ok")
    assert not (tmp_path / "runs").exists()
