"""What weakens a study is said, at its line, and hinders nothing."""

# ruff: noqa: E501  # a table is read row by row

import pytest

from hpo.sweepfile.sweep import parse_sweep, read_sweep, sweep_warnings
from hpo.training.config import CLASSIFIER_SCHEMA

B = "baseline: {data: digits, epochs: 3, lr: 1e-3}\n"
TPE = "strategy: tpe\n"
THREE = "replicates: 3\n"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (B + THREE + "vary: {batch_size: [16, 32, 64]}\n", "s.yaml:3: vary.batch_size: is compared at the one"),
        (B + TPE + "vary:\n  batch_size: [16, 64]\n", "s.yaml:4: vary.batch_size: is compared at the one"),
        (B + "vary: {lr: [1e-4, 1e-3, 1e-2]}\n", "s.yaml:1: replicates: is 1, so no interval"),
        (B + THREE + "vary:\n  lr: [1e-4]\n", "s.yaml:4: vary.lr: compares two values"),
        (B + THREE + "vary: {epochs: [3, 9, 27]}\n", "s.yaml:3: vary.epochs: makes trials of unequal"),
        (B.replace("lr", "width: 8, lr") + THREE + "vary: {width: {low: 8, high: 9, points: 4}, lr: [1, 2]}\n",
         "s.yaml:3: vary.width.points: is 4, but only 2"),
        (B + THREE + "budget: {trials: 5}\nvary: {lr: [1, 2, 3]}\n",
         "s.yaml:3: budget.trials: is 5, which ends the plan of 12"),
        (B + TPE + "vary: {lr: [1e-3, 1, 2]}\nbudget: {trials: 5}\n", "s.yaml:4: budget.trials: gives 5"),
        (B + THREE + "vary: {lr: [1, 2, 3]}\npruner: asha\n", "s.yaml:4: pruner: is asha, but a pruned"),
        (B + TPE + "vary: {lr: [1e-3, 1]}\npruner: {name: asha, min_epochs: 3}\n",
         "s.yaml:4: pruner: never stops a trial"),
        (B + TPE + "vary: {lr: [1e-3, 1]}\nobjective: train_loss\n",
         "s.yaml:4: objective: is train_loss, which rewards"),
    ],
)  # fmt: skip
def test_a_weak_study_is_warned_of_at_its_line(text: str, warning: str) -> None:
    read = read_sweep(text, file="s.yaml", task=CLASSIFIER_SCHEMA)
    assert any(line.startswith(warning) for line in read.warnings), read.warnings


def test_a_sound_study_has_no_warning() -> None:
    text = B + THREE + "vary: {lr: [1e-4, 1e-3, 1e-2], model: [mlp, simple_cnn]}\n"
    assert read_sweep(text, file="s.yaml", task=CLASSIFIER_SCHEMA).warnings == ()


def test_batch_size_and_learning_rate_together_are_sound() -> None:
    text = B + "strategy: tpe\nvary: {lr: [1e-4, 1e-3], batch_size: [32, 64]}\n"
    assert read_sweep(text, file="s.yaml", task=CLASSIFIER_SCHEMA).warnings == ()


def test_without_places_a_warning_names_the_study() -> None:
    sweep = parse_sweep(B + "vary: {lr: [1, 2]}\n", file="abc.yaml", task=CLASSIFIER_SCHEMA)
    assert sweep_warnings(sweep, None)[0].startswith("abc: replicates: is 1")
