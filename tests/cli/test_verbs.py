"""The command line as users meet it: real processes, answers on stdout, exit codes."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SWEEP = """
study: small
description: Two rates and one that cannot work
baseline: {data: digits, model: mlp, epochs: 2, batch_size: 128, lr: 1e-3}
vary:
  lr: [1e-3, 1e-2, 1e12]
replicates: 2
"""


def hpo(*arguments: str, cwd: Path, is_ok: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "HPO_HOME"}
    result = subprocess.run(
        [sys.executable, "-m", "hpo", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in result.stderr, result.stderr
    if is_ok:
        assert result.returncode == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep file and a finished study of it."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "small.yaml").write_text(SWEEP)
    hpo("run", "small.yaml", cwd=folder)
    return folder


def answer(place: Path, *arguments: str) -> Any:
    return json.loads(hpo(*arguments, "--json", cwd=place).stdout)


def test_run_prints_the_conclusion_and_what_to_type_next(place: Path) -> None:
    result = hpo("run", "small.yaml", cwd=place)
    assert "small is finished" in result.stderr
    assert "winner: lr=0.01" in result.stdout
    assert "hpo best small --export" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_status_names_every_trial_with_its_reason(place: Path) -> None:
    status = answer(place, "status", "small")
    assert status["state"] == "finished"
    assert [trial["trial"] for trial in status["trials"]] == [f"small/{n}" for n in range(6)]
    failed = [trial for trial in status["trials"] if trial["state"] == "FAIL"]
    assert [trial["params"]["lr"] for trial in failed] == [1e12, 1e12]
    assert {trial["failure"] for trial in failed} == {"diverged"}
    assert all("epoch" in trial["reason"] for trial in failed)
    assert {t["state"] for t in status["trials"] if t["params"]["lr"] < 1} == {"COMPLETE"}
    assert set(status["trials"][0]) == {
        *("trial", "state", "reason", "failure", "params", "role", "axis", "replicate"),
        *("config_id", "epochs", "val_loss", "best_epoch", "attempts", "notes"),
    }


def test_list_counts_the_trials_of_each_study(place: Path) -> None:
    (study,) = answer(place, "list")
    assert study["study"] == "small"
    assert study["trials"]["COMPLETE"] == 4
    assert study["trials"]["FAIL"] == 2


def test_a_diverged_value_is_never_the_winner(place: Path) -> None:
    comparison = answer(place, "compare", "small")
    assert comparison["winner"]["params"] == {"lr": 0.01}
    worst = comparison["configurations"][-1]
    assert (worst["params"]["lr"], worst["mean"], worst["failed"]) == (1e12, None, 2)


def test_compare_shows_only_the_settings_that_differ(place: Path) -> None:
    compared = answer(place, "compare", "small/0", "small/2")
    assert list(compared["settings"]) == ["lr"]
    assert compared["surroundings"] == {}
    assert "val_loss" in compared["results"]


def test_best_reads_the_test_split_once(place: Path) -> None:
    first = hpo("best", "small", cwd=place).stdout
    second = hpo("best", "small", cwd=place).stdout
    assert "read now, for the first time" in first
    assert "read before" in second
    best = answer(place, "best", "small")
    assert best["winner"] == "lr=0.01"
    assert best["representative"] in best["values"]
    low, high = best["interval"]
    assert low < best["mean"] < high
    assert 0.5 < best["test"]["accuracy"]["mean"] <= 1


def test_the_stored_best_is_the_epoch_whose_value_counts(place: Path) -> None:
    with sqlite3.connect(place / "runs/hpo.db") as connection:
        rows = connection.execute(
            "SELECT t.best_epoch, c.epoch FROM hpo_trials t JOIN hpo_checkpoints c"
            " ON c.trial_id = t.trial_id AND c.kind = 'best' WHERE t.failure IS NULL"
        ).fetchall()
    connection.close()
    assert len(rows) == 4
    assert all(best_epoch == epoch for best_epoch, epoch in rows)
    assert max(best_epoch for best_epoch, _ in rows) > 1


def test_best_exports_without_any_name(place: Path) -> None:
    result = hpo("best", "--export", cwd=place)
    assert (place / "small-best" / "model.onnx").is_file()
    assert "replicate of median value" in result.stderr


def test_logs_names_the_file_of_each_attempt(place: Path) -> None:
    assert "attempt 1" in hpo("logs", "small/0", cwd=place).stderr


def test_plan_lists_trials_without_training(place: Path) -> None:
    plan = answer(place, "plan", "small.yaml", "--no-timing")
    assert len(plan["trials"]) == 6
    assert plan["estimate"] is None


def test_plan_estimates_from_a_timed_run(place: Path) -> None:
    estimate = answer(place, "plan", "small.yaml")["estimate"]
    assert estimate["num_epochs"] == 12
    assert estimate["wall_s"] > 0
    assert estimate["disk_bytes"] > 0
    assert estimate["memory_bytes"] > 0


def test_set_changes_a_key_of_the_file(place: Path) -> None:
    plan = answer(place, "plan", "small.yaml", "--no-timing", "--set", "epochs=7")
    assert {trial["config"]["epochs"] for trial in plan["trials"]} == {7}


def test_a_changed_file_is_refused_with_every_way_on(place: Path) -> None:
    changed = place / "changed.yaml"
    changed.write_text(SWEEP.replace("batch_size: 128", "batch_size: 64"))
    result = hpo("run", "changed.yaml", cwd=place, is_ok=False)
    assert result.returncode == 2
    for part in ("baseline.batch_size", "128", "64", "--new-name small-2", "hpo delete small"):
        assert part in result.stderr
    assert "--extend" not in result.stderr


def test_an_extended_study_trains_only_what_is_new(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SWEEP.replace(", 1e12", "").replace("replicates: 2", "replicates: 1"))
    hpo("run", "small.yaml", cwd=tmp_path)
    file.write_text(SWEEP.replace(", 1e12", ""))
    refused = hpo("run", "small.yaml", cwd=tmp_path, is_ok=False)
    assert refused.returncode == 2
    assert "--extend" in refused.stderr
    hpo("run", "small.yaml", "--extend", cwd=tmp_path)
    trials = answer(tmp_path, "status")["trials"]
    assert [(t["params"]["lr"], t["replicate"]) for t in trials] == [
        (0.001, 0),
        (0.01, 0),
        (0.001, 1),
        (0.01, 1),
    ]
    assert {trial["attempts"] for trial in trials} == {1}


def test_a_deleted_study_leaves_no_trial_and_its_name_is_free(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SWEEP.replace(", 1e12", ""))
    hpo("run", "small.yaml", "--set", "replicates=1", cwd=tmp_path)
    hpo("delete", "small", "--yes", cwd=tmp_path)
    assert answer(tmp_path, "list") == []
    assert not (tmp_path / "runs/trials/small").exists()
    hpo("run", "small.yaml", "--set", "replicates=1", cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "fragments"),
    [
        (["status", "smal"], 4, ["no study is named smal", "small"]),
        (["best", "smal"], 4, ["small"]),
        (["reproduce", "small/99"], 4, ["no trial 99", "small/5"]),
        (["reproduce", "small"], 4, ["STUDY/NUMBER"]),
        (["logs", "other/0"], 4, ["other"]),
        (["compare", "small/0"], 2, ["second trial"]),
        (["run", "missing.yaml"], 2, ["missing.yaml"]),
        (["rum", "small.yaml"], 2, ["did you mean 'run'"]),
        (["run", "small.yaml", "--set", "epohcs=2"], 2, ["epohcs", "epochs"]),
        (["run", "small.yaml", "--home", "small.yaml"], 2, ["small.yaml"]),
        (["run", "small.yaml", "--home", "/proc/nowhere"], 2, ["cannot be written", "--home"]),
        (["run", "small.yaml", "--new-name", "../evil"], 2, ["../evil"]),
        (["init", "small.yaml"], 2, ["--force"]),
    ],
)
def test_a_mistake_gets_a_sentence_and_its_exit_code(
    place: Path, arguments: list[str], code: int, fragments: list[str]
) -> None:
    result = hpo(*arguments, cwd=place, is_ok=False)
    assert result.returncode == code, result.stderr
    for fragment in fragments:
        assert fragment in result.stderr
    assert result.stdout == ""


def test_nothing_is_created_by_a_refused_run(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(SWEEP.replace("lr: 1e-3}", "learnign_rate: 1e-3}"))
    result = hpo("run", "bad.yaml", cwd=tmp_path, is_ok=False)
    assert result.returncode == 2
    assert "bad.yaml:4" in result.stderr
    assert not (tmp_path / "runs").exists()


def test_init_writes_a_sweep_that_is_valid(tmp_path: Path) -> None:
    hpo(
        *("init", "mine.yaml", "--data", "digits", "--model", "mlp"),
        *("--strategy", "tpe", "--epochs", "3", "--replicates", "1"),
        cwd=tmp_path,
    )
    assert "study mine, tpe" in hpo("validate", "mine.yaml", cwd=tmp_path).stdout


def test_help_names_every_verb_in_a_fifth_of_a_second(tmp_path: Path) -> None:
    import time

    hpo("--help", cwd=tmp_path)  # the first one may compile bytecode
    times_s = []
    for _ in range(5):
        began_s = time.perf_counter()
        assert "reproduce" in hpo("--help", cwd=tmp_path).stdout
        times_s.append(time.perf_counter() - began_s)
    assert min(times_s) <= 0.2
