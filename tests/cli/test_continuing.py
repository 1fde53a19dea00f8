"""What a study keeps when it goes on under other circumstances."""

import json
import sqlite3
from pathlib import Path

from tests.cli.test_verbs import answer, hpo

SWEEP = """
study: small
baseline: {data: digits, model: mlp, epochs: 2, batch_size: 128, lr: 1e-3}
vary: {lr: [1e-3, 1e-2]}
"""


def test_a_study_keeps_its_number_of_threads_when_its_workers_change(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SWEEP)
    hpo("run", "small.yaml", "--set", "execution.workers=1", cwd=tmp_path)
    hpo(
        *("run", "small.yaml", "--extend", "--set", "vary.lr=[1e-3, 1e-2, 3e-3]"),
        *("--set", "execution.workers=2"),
        cwd=tmp_path,
    )
    connection = sqlite3.connect(tmp_path / "runs/hpo.db")
    threads = connection.execute("SELECT num_threads FROM hpo_attempts").fetchall()
    connection.close()
    assert len(threads) == 3
    assert len(set(threads)) == 1


def test_added_replicates_are_tested_too(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SWEEP)
    hpo("run", "small.yaml", cwd=tmp_path)
    answer(tmp_path, "best", "small")
    hpo("run", "small.yaml", "--extend", "--set", "replicates=2", cwd=tmp_path)
    assert "read now" in hpo("best", "small", cwd=tmp_path).stdout
    assert answer(tmp_path, "best", "small")["test"]["accuracy"]["interval"] is not None


def test_a_reached_target_leaves_a_winner(tmp_path: Path) -> None:
    text = SWEEP.replace("epochs: 2", "epochs: 6") + "budget: {until: {val_loss: 2.2}}\n"
    (tmp_path / "small.yaml").write_text(text)
    hpo("run", "small.yaml", "--set", "execution.workers=1", cwd=tmp_path)
    status = answer(tmp_path, "status", "small")
    assert status["state"] == "finished"
    assert "reached" in status["reason"]
    assert status["trials"][0]["state"] == "COMPLETE"
    assert answer(tmp_path, "best", "small")["winner"]


def test_a_new_axis_extends_a_study(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SWEEP)
    hpo("run", "small.yaml", cwd=tmp_path)
    (tmp_path / "small.yaml").write_text(SWEEP.replace("1e-2]", "1e-2], dropout: [0.0, 0.1]"))
    hpo("run", "small.yaml", "--extend", cwd=tmp_path)
    trials = json.loads(hpo("status", "small", "--json", cwd=tmp_path).stdout)["trials"]
    assert {trial["axis"] for trial in trials} == {None, "lr", "dropout"}
    assert {trial["state"] for trial in trials} == {"COMPLETE"}
