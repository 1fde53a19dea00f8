"""`--set key=value`."""

# ruff: noqa: E501  # a table is read row by row

import pytest

from hpo.sweepfile.sweep import SweepFileError, parse_sweep
from hpo.training.config import CLASSIFIER_SCHEMA

TEXT = """\
objective: val_loss
baseline: {data: digits, epochs: 15}
vary:
  lr: [1e-4, 1e-2]
  dropout: {low: 0.0, high: 0.5, points: 3}
"""


def read(*overrides: str, text: str = TEXT):
    return parse_sweep(text, file="s.yaml", task=CLASSIFIER_SCHEMA, overrides=overrides)


def test_a_key_of_the_task_alone_means_the_baselines() -> None:
    assert read("epochs=2").baseline["epochs"] == 2
    assert read("baseline.epochs=2").baseline["epochs"] == 2
    assert read("width=8").baseline["width"] == 8


def test_a_path_reaches_into_sections_that_the_file_lacks() -> None:
    assert read("budget.trials=5").budget.num_trials == 5
    assert read("execution.devices=[0, 1]").execution.devices == ("cuda:0", "cuda:1")


def test_a_path_reaches_below_a_varied_key() -> None:
    assert read("vary.dropout.high=0.25").space["dropout"].points == (0.0, 0.125, 0.25)
    assert read("vary.lr=[1, 2]").space["lr"].points == (1.0, 2.0)
    assert read("vary.weight_decay=[0, 1]").space.names == ("lr", "dropout", "weight_decay")


def test_values_are_read_as_in_the_file_and_the_last_one_wins() -> None:
    assert read("lr=1e-3", "lr=5e-1").baseline["lr"] == 0.5
    assert (
        read(
            "lr=1e-2", "strategy={name: tpe, startup_trials: 3}", "budget={hours: 30min}"
        ).budget.hours
        == 0.5
    )


def test_nested_keys_of_the_baseline_are_replaced_and_not_doubled() -> None:
    text = "baseline: {augment: {erasing: 0.2}}\nvary: {augment.erasing: [0.1, 0.2]}\n"
    for key in ("augment.erasing", "baseline.augment.erasing"):
        sweep = parse_sweep(text, file="s.yaml", task=None, overrides=[f"{key}=0.1"])
        assert dict(sweep.baseline) == {"augment.erasing": 0.1}


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("epochs=two", "--set epochs=..: baseline.epochs: is the text 'two', must be a number"),
        ("epochs=", "--set 'epochs': is not key=value, write --set epochs=2 for example"),
        ("epochs", "--set 'epochs': is not key=value, write --set epochs=2 for example"),
        ("=2", "--set '': is not key=value, write --set epochs=2 for example"),
        ("a..b=2", "--set 'a..b': is not key=value, write --set epochs=2 for example"),
        ("epoch=2", "--set epoch=..: epoch: is neither a key of the file nor of the baseline, did you mean 'epochs'?"),
        ("zzz=2", "--set zzz=..: zzz: is neither a key of the file nor of the baseline, remove it"),
        ("confirm.top=2", "--set confirm.top=..: confirm: is not supported yet, remove it"),
        ("epochs=010", "--set epochs=..: is 010, which some programs read as octal, write 10 (or \"010\" in quotes for text)"),
        ("vary.lr=[1, 1]", "--set vary.lr=..: vary.lr: lists 1.0 twice, remove one"),
        ("vary.lr={low: 1", "--set vary.lr=..: has a mapping that is not closed, write a comma or }"),
        ("objective.at=last", "--set objective.at=..: objective.at: cannot be set, objective is the text 'val_loss' in the file, write --set 'objective={at: ..}' with all its keys"),
        ("vary.dropout.low=1", "--set vary.dropout.low=..: vary.dropout.low: is 1, must be below high (0.5)"),
        ("budget=!!int 3", "--set budget=..: has the tag 'tag:yaml.org,2002:int', tags are not allowed, remove it"),
    ],
)  # fmt: skip
def test_an_error_points_at_the_override(override: str, problem: str) -> None:
    with pytest.raises(SweepFileError) as caught:
        read(override)
    assert caught.value.problems == (problem,)


def test_the_rest_of_the_file_keeps_its_lines() -> None:
    with pytest.raises(SweepFileError, match=r"^s.yaml:1: objective.metric: is 'val_los'"):
        read("epochs=2", text=TEXT.replace("val_loss", "val_los"))
