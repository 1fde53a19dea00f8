"""Sweep files and CSV files on disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpo.sweepfile.sweep import SweepFileError, load_sweep, load_sweep_file
from hpo.training.config import CLASSIFIER_SCHEMA

TEXT = """\
baseline: {data: digits}
strategy: tpe
vary: {lr: [1e-3, 1e-2], dropout: {low: 0, high: 0.5}}
"""


@pytest.fixture
def sweep_file(tmp_path: Path) -> Path:
    path = tmp_path / "points.yaml"
    path.write_text(TEXT + "first: points.csv\n")
    return path


def told(path: Path) -> str:
    with pytest.raises(SweepFileError) as caught:
        load_sweep(path, CLASSIFIER_SCHEMA)
    return str(caught.value)


def test_a_missing_file_a_folder_and_a_device_are_named(tmp_path: Path) -> None:
    assert "does not exist, name a sweep file" in told(tmp_path / "none.yaml")
    assert "is a folder" in told(tmp_path)
    assert "is no plain file" in told(Path(os.devnull))
    assert told(Path("a\0b")).startswith("'a\\x00b': does not exist")
    assert "cannot be read" in told(tmp_path / ("x" * 300))


def test_a_file_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(b"study: a\ndescription: caf\xe9\n")
    assert told(path) == f"{path}:2: is not UTF-8 text, save it as UTF-8"
    path.write_bytes(TEXT.encode("utf-16"))
    assert "is not UTF-8 text" in told(path)


def test_a_file_name_that_cannot_name_a_study_needs_a_study_key(tmp_path: Path) -> None:
    path = tmp_path / "my sweep.yaml"
    path.write_text(TEXT)
    assert "the file's name is 'my sweep'" in told(path)
    assert "write study: my-sweep" in told(path)


def test_a_file_is_returned_with_its_text_and_warnings(sweep_file: Path) -> None:
    sweep_file.write_text(TEXT + "budget: {trials: 5}\n")
    read = load_sweep_file(sweep_file, CLASSIFIER_SCHEMA, ["seed=3"])
    assert read.text == TEXT + "budget: {trials: 5}\n"
    assert read.sweep.seed == 3
    assert read.sweep.study == "points"
    assert read.warnings[0].startswith(f"{sweep_file}:4: budget.trials: gives 5 configurations")


def test_points_come_from_a_csv_file_beside_the_sweep(sweep_file: Path) -> None:
    (sweep_file.parent / "points.csv").write_text("\ufefflr, dropout\n1e-3,\n\n1e-2, 0.25\n")
    sweep = load_sweep(sweep_file, CLASSIFIER_SCHEMA)
    assert sweep.first == ({"lr": 1e-3}, {"lr": 1e-2, "dropout": 0.25})


@pytest.mark.parametrize(
    ("csv", "problem"),
    [
        ("lr\n1e-3\n5\n", "points.csv:3: first.lr: is 5, must be one of 0.001, 0.01"),
        ("lr,drop\n1e-3,0\n", "points.csv:2: first.drop: is not varied, did you mean 'dropout'?"),
        ("lr\nfast\n", "points.csv:2: first.lr: is the text 'fast', must be a number"),
        ("lr,dropout\n1e-3\n", "points.csv:2: has 1 values, must have 2, one for each key"),
        ("lr,lr\n1e-3,1e-2\n", "points.csv:1: names a key twice, remove one"),
        ("lr\n", "points.csv:1: has no points, write a line of keys and lines of values"),
        ("lr\n010\n", "points.csv:2: lr: is 010, which some programs read as octal"),
    ],
)
def test_a_bad_csv_file_is_told_at_its_line(sweep_file: Path, csv: str, problem: str) -> None:
    (sweep_file.parent / "points.csv").write_text(csv)
    assert told(sweep_file).startswith(problem)


def test_a_csv_file_in_another_encoding_is_told(sweep_file: Path) -> None:
    (sweep_file.parent / "points.csv").write_bytes(b"lr\n\xff\n")
    assert f"{sweep_file}:4: first: names 'points.csv', which cannot be read" in told(sweep_file)


def test_reading_sweeps_imports_nothing_heavy() -> None:
    code = (
        "import sys, hpo.sweepfile.sweep, hpo.sweepfile.difference\n"
        "heavy = {'torch', 'numpy', 'optuna', 'mlflow', 'pydantic', 'sqlalchemy', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
