"""Sweeps that can be used: none of them is refused, and each means what it says."""

# ruff: noqa: E501  # a table is read row by row

from collections.abc import Callable
from typing import Any

import pytest

from hpo.domain.objective import At, Direction
from hpo.domain.search_space import Choices, Range
from hpo.domain.sweep import (
    Budget,
    Execution,
    Hyperband,
    MedianPruning,
    NoPruning,
    OneAtATime,
    SuccessiveHalving,
    Sweep,
    Tpe,
    Tracking,
)
from hpo.sweepfile.sweep import parse_sweep
from hpo.training.config import CLASSIFIER_SCHEMA

B = "baseline: {data: digits, epochs: 3, lr: 1e-3}\n"
V = "vary: {lr: [1e-4, 1e-3, 1e-2]}\n"
TPE = "strategy: tpe\n"
FULL = B + V


def first_values(sweep: Sweep) -> Any:
    parameter = sweep.space.parameters[0]
    assert isinstance(parameter, Choices)
    return parameter.values


GOOD: list[tuple[str, str, Callable[[Sweep], Any] | None, Any]] = [
    # name, text, what to look at, what it must be
    ("name of the file", FULL, lambda s: s.study, "my-sweep.v2"),
    ("own name", FULL + "study: a_b-c.1\n", lambda s: s.study, "a_b-c.1"),
    ("quoted number as name", FULL + 'study: "12"\n', lambda s: s.study, "12"),
    ("description", FULL + "description: 'a: b'\n", lambda s: s.description, "a: b"),
    ("empty description", FULL + "description:\n", lambda s: s.description, ""),
    ("block text", FULL + "description: |\n  one\n  two\n", lambda s: s.description, "one\ntwo\n"),
    ("unicode", FULL + "description: café 🙂\n", lambda s: s.description, "café 🙂"),
    ("byte order mark", "\ufeff" + FULL, lambda s: s.seed, 0),
    ("explicit document", "---\n" + FULL + "...\n", lambda s: s.seed, 0),
    ("version directive", "%YAML 1.2\n---\n" + FULL, None, None),
    ("carriage returns", FULL.replace("\n", "\r\n"), lambda s: s.replicates, 1),
    ("exponent", FULL, first_values, (1e-4, 1e-3, 1e-2)),
    ("exponent without sign", B + "vary: {weight_decay: [1e1, 1E0]}\n", first_values, (10.0, 1.0)),
    ("bare fraction", B + "vary: {dropout: [.5, 0.]}\n", first_values, (0.5, 0.0)),
    ("signs", B + "vary: {dropout: [+0.5, -0.0]}\n", first_values, (0.5, 0.0)),
    ("hexadecimal", FULL + "seed: 0x10\n", lambda s: s.seed, 16),
    ("octal, new style", FULL + "seed: 0o17\n", lambda s: s.seed, 15),
    ("whole float", FULL + "replicates: 1e1\n", lambda s: s.replicates, 10),
    ("largest seed", FULL + "seed: 2147483647\n", lambda s: s.seed, 2**31 - 1),
    ("typed whole", B, lambda s: type(s.baseline["epochs"]), int),
    ("typed float", "baseline: {data: digits, dropout: 0}\n" + V, lambda s: s.baseline["dropout"], 0.0),
    ("flag", "baseline: {data: digits, download: True}\n" + V, lambda s: s.baseline["download"], True),
    ("no as text", FULL + "description: no\n", lambda s: s.description, "no"),
    ("time as text", FULL + "description: 3:30\n", lambda s: s.description, "3:30"),
    ("date as text", FULL + "description: 2024-01-01\n", lambda s: s.description, "2024-01-01"),
    ("anchor", "baseline: &b {data: digits, lr: 1}\nvary: {lr: &v [1, 2], dropout: [0, 0.5]}\n",
     lambda s: s.space.names, ("lr", "dropout")),
    ("alias", B + "vary: {dropout: &v [0, 0.5], augment: *v}\n", lambda s: s.space["augment"].points,
     (0.0, 0.5)),
    ("defaults", FULL, lambda s: s.baseline["model"], "simple_cnn"),
    ("default objective", FULL, lambda s: s.objective.metric, "val_loss"),
    ("bare objective", FULL + "objective: val_accuracy\n", lambda s: s.objective.direction,
     Direction.MAXIMIZE),
    ("last epoch", FULL + "objective: {metric: val_loss, at: last}\n", lambda s: s.objective.at, At.LAST),
    ("any metric with direction", FULL + "objective: {metric: grad_norm, direction: maximize}\n",
     lambda s: s.objective.direction, Direction.MAXIMIZE),
    ("default strategy", FULL, lambda s: s.strategy, OneAtATime()),
    ("one plan, no budget", FULL, lambda s: s.budget, Budget()),
    ("tpe", FULL + TPE, lambda s: s.strategy, Tpe(startup_trials=10)),
    ("tpe options", FULL + "strategy: {name: tpe, startup_trials: 3}\n",
     lambda s: s.strategy, Tpe(startup_trials=3)),
    ("tpe budget", FULL + TPE, lambda s: s.budget.num_trials, 40),
    ("tpe budget with replicates", FULL + TPE + "replicates: 3\n", lambda s: s.budget.num_trials, 120),
    ("hours alone", FULL + TPE + "budget: {hours: 2}\n", lambda s: s.budget, Budget(hours=2.0)),
    ("unlimited", FULL + TPE + "budget: {trials: unlimited}\n", lambda s: s.budget, Budget()),
    ("minutes", FULL + "budget: {hours: 30min}\n", lambda s: s.budget.hours, 0.5),
    ("duration", FULL + "budget: {hours: 1h30min}\n", lambda s: s.budget.hours, 1.5),
    ("until", FULL + "budget: {until: {val_loss: 0.05}}\n", lambda s: s.budget.until, 0.05),
    ("pruner of a plan", FULL, lambda s: s.pruner, NoPruning()),
    ("pruner of a search", FULL + TPE, lambda s: s.pruner, MedianPruning()),
    ("no pruner", FULL + TPE + "pruner: none\n", lambda s: s.pruner, NoPruning()),
    ("asha", FULL + "pruner: {name: asha, min_epochs: 2}\n", lambda s: s.pruner,
     SuccessiveHalving(min_epochs=2, reduction_factor=3)),
    ("hyperband", FULL + "pruner: hyperband\n", lambda s: s.pruner, Hyperband()),
    ("range by step", B + "vary: {dropout: {low: 0, high: 0.5, step: 0.1}}\n",
     lambda s: s.space["dropout"].points, (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)),
    ("baseline on a step", "baseline: {data: digits, dropout: 0.2}\n" + TPE
     + "vary: {dropout: {low: 0, high: 0.6, step: 0.2}}\n", lambda s: s.baseline["dropout"], 0.2),
    ("range by points", B + "vary: {lr: {low: 1e-5, high: 1e-1, log: true, points: 5}}\n",
     lambda s: s.space["lr"].points, (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
    ("integer range", B + TPE + "vary: {batch_size: {low: 8, high: 256, log: true}}\n",
     lambda s: s.space["batch_size"],
     Range(name="batch_size", low=8, high=256, is_log=True, is_integer=True)),
    ("ordered choices", B + "vary: {model: {choices: [mlp, simple_cnn], ordered: true}}\n",
     lambda s: s.space["model"], Choices(name="model", values=("mlp", "simple_cnn"), is_ordered=True)),
    ("flags vary", B + "vary: {batch_norm: [true, false]}\n", first_values, (True, False)),
    ("optimizer and momentum", B + "strategy: grid\nvary: {optimizer: [sgd, adamw], momentum: [0.8, 0.9]}\n",
     lambda s: s.space.names, ("optimizer", "momentum")),
    ("first", B + TPE + V + "first: [{lr: 1e-4}, {lr: 1e-2}]\n", lambda s: s.first,
     ({"lr": 1e-4}, {"lr": 1e-2})),
    ("workers", FULL + "execution: {workers: 4}\n", lambda s: s.execution, Execution(workers=4)),
    ("auto", FULL + "execution: {workers: auto, devices: auto}\n", lambda s: s.execution, Execution()),
    ("GPUs", FULL + "execution: {devices: [0, cuda:1]}\n", lambda s: s.execution.devices,
     ("cuda:0", "cuda:1")),
    ("one device", FULL + "execution: {devices: cpu}\n", lambda s: s.execution.devices, ("cpu",)),
    ("tracking", FULL + "tracking: {uri: 'http://h:5000', experiment: e}\n", lambda s: s.tracking,
     Tracking(uri="http://h:5000", experiment="e")),
    ("default tracking", FULL + "tracking: {uri: default}\n", lambda s: s.tracking, Tracking()),
    ("JSON", '{"baseline": {"data": "digits"}, "vary": {"lr": [1E-4, 1e-05]}}', first_values, (1e-4, 1e-5)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "look", "wanted"), [g[1:] for g in GOOD], ids=[g[0] for g in GOOD]
)
def test_a_good_sweep_means_what_it_says(
    text: str, look: Callable[[Sweep], Any] | None, wanted: Any
) -> None:
    if "vary" not in text:
        text += V
    sweep = parse_sweep(text, file="folder/my-sweep.v2.yaml", task=CLASSIFIER_SCHEMA)
    if look is not None:
        assert look(sweep) == wanted


def test_the_corpus_is_large_enough() -> None:
    assert len(GOOD) >= 30


def test_nested_and_dotted_keys_are_one_without_a_task() -> None:
    nested = "baseline: {augment: {erasing: 0.2, crop: {pad: 4}}}\nvary: {augment.erasing: [0.1, 0.2]}\n"
    dotted = "baseline: {augment.erasing: 0.2, augment.crop.pad: 4}\nvary: {augment.erasing: [0.1, 0.2]}\n"
    sweep = parse_sweep(nested, file="s.yaml", task=None)
    assert sweep == parse_sweep(dotted, file="s.yaml", task=None)
    assert dict(sweep.baseline) == {"augment.erasing": 0.2, "augment.crop.pad": 4}


def test_without_a_task_the_bounds_tell_whether_whole_numbers_are_meant() -> None:
    text = "baseline: {n: 2, x: 1.5}\nstrategy: tpe\nvary: {n: {low: 1, high: 9}, x: {low: 1, high: 2.5}}\n"
    space = parse_sweep(text, file="s.yaml", task=None).space
    assert [p.is_integer for p in space.parameters if isinstance(p, Range)] == [True, False]
