"""What changed between two sweeps, and whether a study can follow."""

import pytest

from hpo.sweepfile.difference import compare_sweeps, render_changes
from hpo.sweepfile.sweep import parse_sweep
from hpo.training.config import CLASSIFIER_SCHEMA

OLD = """\
study: old
objective: val_loss
strategy: one-at-a-time
baseline: {data: digits, epochs: 15}
vary:
  lr: [1e-4, 1e-3, 1e-2]
  dropout: {low: 0, high: 0.5, points: 3}
replicates: 3
budget: {trials: 20, hours: 2}
"""
TPE = OLD.replace("one-at-a-time", "tpe")


def changes(old: str, *replacements: tuple[str, str]):
    new = old
    for before, after in replacements:
        assert before in new
        new = new.replace(before, after)
    sweeps = [parse_sweep(text, file="s.yaml", task=CLASSIFIER_SCHEMA) for text in (old, new)]
    return compare_sweeps(*sweeps)


@pytest.mark.parametrize(
    ("old", "before", "after", "path", "kind"),
    [
        (OLD, "study: old", "description: d", "description", "harmless"),
        (OLD, "study: old", "execution: {workers: 2}", "execution.workers", "harmless"),
        (OLD, "study: old", "execution: {devices: cpu}", "execution.devices", "harmless"),
        (OLD, "trials: 20", "trials: 30", "budget.trials", "extension"),
        (OLD, "trials: 20, ", "", "budget.trials", "extension"),
        (OLD, "trials: 20", "trials: 10", "budget.trials", "breaking"),
        (OLD, "hours: 2", "hours: 3", "budget.hours", "extension"),
        (OLD, "hours: 2", "hours: 1", "budget.hours", "breaking"),
        (OLD, "hours: 2", "hours: 2, until: {val_loss: 0.1}", "budget.until", "breaking"),
        (OLD, "replicates: 3", "replicates: 5", "replicates", "extension"),
        (OLD, "replicates: 3", "replicates: 2", "replicates", "breaking"),
        (OLD, "1e-2]", "1e-2, 1e-1]", "vary.lr", "extension"),
        (OLD, "1e-3, 1e-2]", "1e-2]", "vary.lr", "breaking"),
        (OLD, "points: 3", "points: 5", "vary.dropout", "extension"),
        (OLD, "points: 3", "points: 4", "vary.dropout", "breaking"),
        (OLD, "high: 0.5, points: 3", "high: 0.75, points: 4", "vary.dropout", "extension"),
        (OLD, "vary:\n", "vary:\n  augment: [0, 1]\n", "vary.augment", "extension"),
        (OLD, "  lr: [1e-4, 1e-3, 1e-2]\n", "", "vary.lr", "breaking"),
        (TPE, "high: 0.5", "high: 0.6", "vary.dropout", "extension"),
        (TPE, "high: 0.5", "high: 0.4", "vary.dropout", "breaking"),
        (TPE, "points: 3", "log: false", "vary.dropout.points", "none"),
        (TPE, "1e-2]", "1e-2, 1e-1]", "vary.lr", "extension"),
        (TPE, "[1e-4, 1e-3, 1e-2]", "{low: 1e-5, high: 1, log: true}", "vary.lr", "extension"),
        (TPE, "vary:\n", "vary:\n  augment: [0, 1]\n", "vary.augment", "breaking"),
        (OLD, "epochs: 15", "epochs: 30", "baseline.epochs", "breaking"),
        (OLD, "val_loss", "val_accuracy", "objective.metric", "breaking"),
        (OLD, "val_loss", "{metric: val_loss, at: last}", "objective.at", "breaking"),
        (OLD, "one-at-a-time", "grid", "strategy.name", "breaking"),
        (TPE, "tpe", "{name: tpe, startup_trials: 5}", "strategy.startup_trials", "breaking"),
        (OLD, "study: old", "seed: 1", "seed", "breaking"),
        (OLD, "study: old", "pruner: median", "pruner.name", "breaking"),
        (OLD, "study: old", "tracking: {uri: 'http://h'}", "tracking.uri", "extension"),
    ],
)  # fmt: skip
def test_a_change_is_judged(old: str, before: str, after: str, path: str, kind: str) -> None:
    found = {change.path: change for change in changes(old, (before, after))}
    if kind == "none":
        assert path not in found
        return
    change = found[path]
    assert change.is_harmless is (kind == "harmless")
    assert change.is_extension is (kind == "extension")


def test_equal_sweeps_have_no_changes_and_the_name_does_not_count() -> None:
    assert changes(OLD) == []
    assert changes(OLD, ("study: old", "study: new")) == []
    assert changes(OLD, ("1e-3, ", "0.001, "), ("15", "1.5e1")) == []


def test_the_order_of_parameters_counts_where_draws_depend_on_it() -> None:
    swapped = (
        "  lr: [1e-4, 1e-3, 1e-2]\n  dropout: {low: 0, high: 0.5, points: 3}\n",
        "  dropout: {low: 0, high: 0.5, points: 3}\n  lr: [1e-4, 1e-3, 1e-2]\n",
    )
    assert [(c.path, c.is_extension) for c in changes(OLD, swapped)] == [("vary", True)]
    assert [(c.path, c.is_extension) for c in changes(TPE, swapped)] == [("vary", False)]


def test_changes_are_rendered_for_people_in_the_order_of_the_file() -> None:
    found = changes(
        OLD,
        ("study: old", "description: more\nstudy: old"),
        ("1e-2]", "1e-2, 1]"),
        ("epochs: 15", "epochs: 30"),
        (", hours: 2", ""),
    )
    assert render_changes(found) == (
        "+ description      more\n"
        "~ baseline.epochs  15 -> 30\n"
        "~ vary.lr          [0.0001, 0.001, 0.01] -> [0.0001, 0.001, 0.01, 1]\n"
        "- budget.hours     2"
    )
    assert render_changes([]) == ""
