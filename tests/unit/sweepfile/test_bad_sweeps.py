"""Sweeps that cannot be used: each is refused at its line, saying what to write instead."""

# ruff: noqa: E501  # a table is read row by row

import re

import pytest

from hpo.sweepfile.sweep import SweepFileError, parse_sweep
from hpo.training.config import CLASSIFIER_SCHEMA

B = "baseline: {data: digits, epochs: 3, lr: 1e-3}\n"
V = "vary: {lr: [1e-4, 1e-2]}\n"
TPE = "strategy: tpe\n"
GRID = "strategy: grid\n"

BAD = [
    # name, text, line, what the message holds
    # --- YAML
    ("empty", "", 1, "is empty, write baseline and vary"),
    ("only a comment", "# nothing\n", 1, "is empty, write baseline and vary"),
    ("a list", "- a\n- b\n", 1, "is not a mapping"),
    ("a scalar", "lr:[1e-3]\n", 1, "is not a mapping"),
    ("a tab", "baseline:\n\tlr: 1\n", 2, "has a tab"),
    ("two documents", B + V + "---\n" + B, 3, "write one file a study"),
    ("duplicate key", B + V + "seed: 1\nseed: 2\n", 4, "seed: is written twice, first at s.yaml:3"),
    ("duplicate in flow", "baseline: {data: digits,\n  lr: 1, lr: 2}\n" + V, 2, "lr: is written twice"),
    ("dotted and nested", "baseline:\n  a: {b: 1}\n  a.b: 2\n" + V, 3, "is written twice"),
    ("python tag", B + V + "seed: !!python/object:os.system x\n", 3, "tags are not allowed"),
    ("core tag", B + V + "seed: !!int 3\n", 3, "tags are not allowed"),
    ("local tag", B + V + "seed: ! 3\n", 3, "tags are not allowed"),
    ("tag directive", "%TAG ! tag:x,2000:\n---\n" + B + V, 1, "directive"),
    ("merge key", "a: &a {lr: 1}\nbaseline:\n  <<: *a\n", 3, "write the keys out"),
    ("unknown alias", B + V + "seed: *nothing\n", 3, "uses *nothing"),
    ("cycle", "baseline: &a {data: *a}\n", 1, "uses *a, which is not complete above"),
    ("anchor twice", B + "first: [&a {lr: 1}, &a {lr: 2}]\n", 2, "a second time"),
    ("list as key", "? [a, b]\n: 1\n", 1, "a key that is not plain text"),
    ("open list", B + "vary: {lr: [1e-4, 1e-2}\n", 2, "write a comma or ]"),
    ("open mapping", B + "vary: {lr: [1, 2]\nseed: 0\n", 3, "write a comma or }"),
    ("open quote", B + V + 'study: "abc\n', 4, "close it"),
    ("colon in text", B + V + "description: a: b\n", 3, "put the text in quotes"),
    ("no colon", B + V + "seed\n", 4, "write a colon and a space"),
    ("bad escape", B + V + 'description: "\\q"\n', 3, "use single quotes"),
    ("bad indentation", "baseline:\n  data: digits\n   lr: 1\n", 3, "put the text in quotes"),
    ("reserved character", B + V + "description: @x\n", 3, "put it in quotes"),
    ("control character", B + V + 'description: "\\x07"\n', 3, "control character"),
    ("NUL", B + V + "description: \0\n", 3, "unprintable character"),
    ("lone surrogate", B + V + 'description: "\\ud800"\n', 3, "half of a character"),
    ("impossible escape", B + V + 'description: "\\UFFFFFFFF"\n', 1, "write plain keys"),
    ("deep", B + "vary: " + "[" * 40 + "]" * 40 + "\n", 2, "nested more than 16 deep"),
    # --- numbers
    ("quoted number", 'baseline: {data: digits, lr: "1e-3"}\n' + V, 1, "write 1e-3 without quotes"),
    ("quoted in list", B + 'vary:\n  lr:\n  - 1e-4\n  - "1e-2"\n', 5, "write 1e-2 without quotes"),
    ("quoted bound", B + 'vary:\n  lr: {low: "1e-4", high: 1}\n', 3, "vary.lr.low: is text because"),
    ("underscore", B + V + "seed: 1_000\n", 3, "write 1000"),
    ("comma", "baseline:\n  data: digits\n  lr: 0,1\n" + V, 3, "'0,1', write 0.1"),
    ("percent", "baseline:\n  data: digits\n  dropout: 25%\n" + V, 3, "write 0.25"),
    ("octal", B + V + "seed: 010\n", 3, "write 10"),
    ("sexagesimal", B + V + "seed: 3:30\n", 3, "is the text '3:30', must be a number"),
    ("infinity", "baseline:\n  data: digits\n  lr: .inf\n" + V, 3, "write a finite number"),
    ("not a number", "baseline:\n  data: digits\n  lr: .nan\n" + V, 3, "write a finite number"),
    ("overflow", "baseline:\n  data: digits\n  lr: 1e999\n" + V, 3, "too large"),
    ("long number", B + V + "seed: " + "9" * 5000 + "\n", 3, "write a shorter one"),
    ("fraction", "baseline:\n  data: digits\n  epochs: 1.5\n" + V, 3, "must be a whole number"),
    ("word", "baseline:\n  data: digits\n  lr: fast\n" + V, 3, "'fast', must be a number"),
    ("no is text", "baseline:\n  data: digits\n  download: no\n" + V, 3, "write false"),
    ("number for text", "baseline:\n  data: digits\n  model: 12\n" + V, 3, 'write "12" in quotes'),
    ("list for number", "baseline:\n  data: digits\n  lr: [1, 2]\n" + V, 3, "is a list"),
    ("empty value", "baseline:\n  data: digits\n  lr:\n" + V, 3, "is empty"),
    # --- keys
    ("unknown key", B + V + "replicate: 3\n", 3, "replicate: is not a known key, did you mean 'repl"),
    ("hopeless key", B + V + "zzz: 3\n", 3, "write one of study, description"),
    ("W&B key", "method: grid\n" + B + V, 1, "method: is not a known key"),
    ("nuisance", B + V + "nuisance: {lr: 1}\n", 3, "nuisance: is not supported yet, remove it"),
    ("confirm", B + V + "confirm: {top: 3}\n", 3, "confirm: is not supported yet"),
    ("checkpoints", B + V + "checkpoints: {every: 0}\n", 3, "checkpoints: is not supported yet"),
    ("target", B + V + "target: a.b:c\n", 3, "target: is not supported yet"),
    ("command", B + V + "command: [python]\n", 3, "command: is not supported yet"),
    ("retries", B + V + "execution:\n  retries: 2\n", 4, "execution.retries: is not supported yet"),
    ("trial timeout", B + V + "execution: {trial_timeout: 30min}\n", 3, "is not supported yet"),
    ("adopt", B + V + "strategy: {name: one-at-a-time, adopt: true}\n", 3, "adopt: is not supported"),
    ("no baseline", V, 1, "lacks baseline, add 'baseline:'"),
    ("no vary", B, 1, "lacks vary, add 'vary:'"),
    ("baseline is text", "baseline: digits\n" + V, 1, "is the text 'digits', write a mapping"),
    # --- study
    ("slash", B + V + "study: a/b\n", 3, "write a-b"),
    ("parent", B + V + "study: ../x\n", 3, "study: is '../x'"),
    ("dots", B + V + "study: a..b\n", 3, "write a.b"),
    ("hidden", B + V + "study: .x\n", 3, "write x"),
    ("option", B + V + "study: -x\n", 3, "write x"),
    ("long name", B + V + f"study: {'x' * 101}\n", 3, "at most 100"),
    ("accents", B + V + "study: étude\n", 3, "study: is '\\xe9tude'"),
    ("number as name", B + V + "study: 12\n", 3, 'write "12" in quotes'),
    # --- objective
    ("unknown metric", B + V + "objective: val_los\n", 3, "did you mean 'val_loss'?"),
    ("worst model", B + V + "objective: {metric: val_accuracy, direction: minimize}\n", 3, "write max"),
    ("direction", B + V + "objective: {metric: val_loss, direction: min}\n", 3, "one of minimize, max"),
    ("no direction", B + V + "objective: grad_norm\n", 3, "lacks direction"),
    ("at", B + V + "objective: {metric: val_loss, at: first}\n", 3, "must be one of best, last"),
    ("no metric", B + V + "objective: {at: last}\n", 3, "lacks metric"),
    ("two objectives", B + V + "objective: [val_loss, val_accuracy]\n", 3, "are not supported yet"),
    # --- strategy and pruner
    ("misspelt strategy", B + V + "strategy: tpee\n", 3, "did you mean 'tpe'?"),
    ("later strategy", B + V + "strategy: cmaes\n", 3, "cmaes is not supported yet"),
    ("later strategy, mapping", B + V + "strategy:\n  name: gp\n", 4, "gp is not supported yet"),
    ("no strategy name", B + V + "strategy: {startup_trials: 3}\n", 3, "lacks name"),
    ("option of another", B + V + "strategy: {name: grid, startup_trials: 3}\n", 3, "does not fit here"),
    ("startup 0", B + V + "strategy: {name: tpe, startup_trials: 0}\n", 3, "must be 1 to"),
    ("misspelt pruner", B + V + "pruner: medain\n", 3, "did you mean 'median'?"),
    ("factor 1", B + V + "pruner: {name: asha, reduction_factor: 1}\n", 3, "must be 2 to"),
    # --- numbers of the study
    ("replicates 0", B + V + "replicates: 0\n", 3, "is 0, must be 1 to"),
    ("negative seed", B + V + "seed: -1\n", 3, "must be 0 to 2147483647"),
    ("large seed", B + V + "seed: 2147483648\n", 3, "must be 0 to 2147483647"),
    ("trials 0", B + V + "budget: {trials: 0}\n", 3, "budget.trials: is 0"),
    ("below replicates", B + V + "replicates: 3\nbudget: {trials: 2}\n", 4, "at least replicates (3)"),
    ("hours", B + V + "budget: {hours: soon}\n", 3, "write hours, or 30min"),
    ("hours 0", B + V + "budget: {hours: 0}\n", 3, "must be above 0"),
    ("until", B + V + "budget: {until: 0.05}\n", 3, "write a mapping"),
    ("until another", B + V + "budget: {until: {val_accuracy: 1}}\n", 3, "write {val_loss: 0.05}"),
    ("workers", B + V + "execution: {workers: many}\n", 3, "must be a number"),
    ("workers 0", B + V + "execution: {workers: 0}\n", 3, "must be 1 to"),
    ("devices", B + V + "execution: {devices: [gpu]}\n", 3, "cuda:0"),
    ("device twice", B + V + "execution: {devices: [0, cuda:0]}\n", 3, "names a device twice"),
    ("password", B + V + "tracking: {uri: 'http://u:secret@h'}\n", 3, "has a password in it"),
    # --- baseline
    ("misspelt", "baseline:\n  data: digits\n  learnign_rate: 1\n" + V, 3, "is not a key of the task"),
    ("near", "baseline:\n  data: digits\n  epoch: 1\n" + V, 3, "did you mean 'epochs'?"),
    ("no data", "baseline: {lr: 1e-3}\n" + V, 1, "lacks data, add data: one of digits"),
    ("choice", "baseline:\n  data: digits\n  model: simple_cn\n" + V, 3, "did you mean 'simple_cnn'?"),
    ("range", "baseline:\n  data: digits\n  dropout: 1.5\n" + V, 3, "is 1.5, must be < 1"),
    ("negative", "baseline:\n  data: digits\n  lr: -1e-3\n" + V, 3, "must be > 0"),
    # --- vary
    ("empty vary", B + "vary: {}\n", 2, "vary: is empty"),
    ("unknown parameter", B + "vary:\n  lrr: [1, 2]\n", 3, "did you mean 'lr'?"),
    ("data varies", B + "vary: {data: [digits, mnist]}\n", 2, "cannot vary"),
    ("single value", B + "vary: {lr: 1e-2}\n", 2, "write a list: [0.01]"),
    ("empty list", B + "vary: {lr: []}\n", 2, "lists no values"),
    ("only the baseline", B + "vary: {lr: [1e-3]}\n", 2, "so nothing varies"),
    ("bad value", B + "vary:\n  dropout:\n    - 0.5\n    - 1.5\n", 5, "vary.dropout: is 1.5, must be < 1"),
    ("bad choice", B + "vary: {optimizer: [sgd, adan]}\n", 2, "'adan', must be one of"),
    ("bad model", B + "vary: {model: [mlp, cnn]}\n", 2, "'cnn' (text), must be one of"),
    ("value twice", B + "vary:\n  lr: [1e-3,\n    0.001]\n", 4, "lists 0.001 twice"),
    ("mixed", B + "vary: {lr: [1e-3, high]}\n", 2, "'high', must be a number"),
    ("list of lists", B + "vary: {lr: [[1, 2]]}\n", 2, "is a list, must be a number"),
    ("low is high", B + "vary: {lr: {low: 1, high: 1}}\n", 2, "must be below high (1)"),
    ("log from 0", B + "vary:\n  lr: {low: 0,\n    high: 1, log: true}\n", 3, "must be > 0 when log is"),
    ("log and step", B + "vary: {lr: {low: 1, high: 3, log: true, step: 1}}\n", 2, "remove one of them"),
    ("step", B + "vary: {dropout: {low: 0, high: 0.5, step: 0.15}}\n", 2, "write high: 0.45"),
    ("step 0", B + "vary: {dropout: {low: 0, high: 0.5, step: 0}}\n", 2, "is 0, must be > 0"),
    ("step and points", B + "vary: {dropout: {low: 0, high: 0.5, step: 0.5, points: 2}}\n", 2, "remove"),
    ("1 point", B + "vary: {lr: {low: 1e-4, high: 1, points: 1}}\n", 2, "must be 2 to 1000"),
    ("no points", B + "vary: {lr: {low: 1e-4, high: 1}}\n", 2, "add points: 5"),
    ("no points for grid", B + GRID + "vary: {lr: {low: 1e-4, high: 1}}\n", 3, "add points: 5"),
    ("no high", B + "vary: {lr: {low: 1e-4}}\n", 2, "lacks high"),
    ("misspelt bound", B + "vary: {lr: {lo: 1, high: 2}}\n", 2, "vary.lr.lo: is not a known key"),
    ("W&B range", B + "vary: {lr: {min: 1, max: 2}}\n", 2, "vary.lr.min: is not a known key"),
    ("scale_with", B + "vary: {lr: {scale_with: batch_size}}\n", 2, "is not supported yet"),
    ("choices and low", B + "vary: {lr: {choices: [1], low: 1}}\n", 2, "does not fit here"),
    ("choices as text", B + "vary: {lr: {choices: 1e-3}}\n", 2, "write a list of values"),
    ("unordered numbers", B + "vary: {lr: {choices: [1, 2], ordered: false}}\n", 2, "numbers are ordered"),
    ("range of words", B + "vary: {model: {low: 1, high: 2}}\n", 2, "write a list of values"),
    ("whole bounds", B + "vary: {batch_size: {low: 0.5, high: 8, points: 3}}\n", 2, "a whole number"),
    ("integer lr", B + "vary: {lr: {low: 1, high: 8, points: 3, integer: true}}\n", 2, "remove it"),
    ("bound too low", B + TPE + "vary:\n  batch_size: {low: 0,\n    high: 64}\n", 4, "must be >= 1"),
    ("bound too high", B + TPE + "vary:\n  dropout:\n    low: 0\n    high: 1\n", 6, "must be < 1"),
    ("outside range", B + TPE + "vary: {lr: {low: 1e-2, high: 1}}\n", 1, "must be from 0.01 to 1"),
    ("outside range of a plan", B + "vary: {lr: {low: 1e-2, high: 1, points: 3}}\n", 1, "from 0.01 to 1"),
    ("off the step", B + GRID + "vary: {dropout: {low: 0, high: 0.5, step: 0.1}}\n", 1, "in steps of 0.1"),
    ("outside choices", B + TPE + V, 1, "must be one of 0.0001, 0.01, because it is varied"),
    ("too many images", B + "vary: {batch_size: [32, 100000]}\n", 2, "vary.batch_size: is 100000"),
    ("bad pair", B + TPE + "vary: {epochs: [3, 9], warmup_epochs: [0, 5]}\n", 3, "must be below epochs"),
    ("pair", B + GRID + "vary: {epochs: [1, 3], warmup_epochs: [0, 1]}\n", 3, "does not go with epochs 1"),
    ("huge grid", B + GRID + "vary:\n"
     "  lr: {low: 1e-4, high: 1, points: 999}\n  dropout: {low: 0, high: 0.5, points: 999}\n",
     3, "grid of 998001 configurations"),
    # --- first
    ("first for a plan", B + V + "first: [{lr: 1e-2}]\n", 3, "has a plan of its own"),
    ("first not varied", B + TPE + "vary: {lr: [1e-3, 1e-2]}\nfirst: [{dropout: 0.1}]\n", 4, "not varied"),
    ("first outside", B + TPE + "vary: {lr: [1e-3, 1e-2]}\nfirst:\n- {lr: 1}\n", 5, "must be one of"),
    ("first is a number", B + TPE + "vary: {lr: [1e-3, 1e-2]}\nfirst: 3\n", 4, "write a list of points"),
    ("first repeats", B + TPE + "vary: {lr: [1e-3, 1]}\nfirst:\n- {lr: 1}\n- {lr: 1}\n", 6, "repeats"),
    ("no such CSV", B + TPE + "vary: {lr: [1e-3, 1e-2]}\nfirst: none.csv\n", 4, "which is no file"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "fragment"), [b[1:] for b in BAD], ids=[b[0] for b in BAD]
)
def test_a_bad_sweep_is_refused_at_its_line(text: str, line: int, fragment: str) -> None:
    with pytest.raises(SweepFileError) as caught:
        parse_sweep(text, file="s.yaml", task=CLASSIFIER_SCHEMA)
    told = [problem for problem in caught.value.problems if fragment in problem]
    assert told, caught.value.problems
    assert told[0].startswith(f"s.yaml:{line}: "), told
    for problem in caught.value.problems:
        assert re.search(r"write|remove|add|must|did you mean|indent|put|close|use|save|rename|list"
                         r"|align|check|name|one of|not supported|aliases", problem), problem  # fmt: skip


def test_the_corpus_is_large_enough() -> None:
    assert len(BAD) >= 60
    assert len({b[1] for b in BAD}) == len(BAD)


def test_all_problems_are_told_at_once_in_the_order_of_lines() -> None:
    text = "seed: -1\nbaseline:\n  data: digits\n  lr: 010\n  lr: 2\n  dropout: 2\nvary: {optimizer: [a]}\n"
    with pytest.raises(SweepFileError) as caught:
        parse_sweep(text, file="s.yaml", task=CLASSIFIER_SCHEMA)
    lines = [problem.split(": ")[0] for problem in caught.value.problems]
    assert lines == ["s.yaml:1", "s.yaml:4", "s.yaml:5", "s.yaml:7"]
    assert caught.value.exit_code == 2
    assert str(caught.value).count("\n") == 3


def test_at_most_twenty_problems_are_told() -> None:
    keys = "".join(f"k{index}: 1\n" for index in range(30))
    with pytest.raises(SweepFileError) as caught:
        parse_sweep(keys + B + V, file="s.yaml", task=CLASSIFIER_SCHEMA)
    assert len(caught.value.problems) == 21
    assert caught.value.problems[-1] == "and 10 more of this kind"


def test_an_alias_bomb_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for index in range(1, 10):
        aliases = ", ".join([f"*a{index - 1}"] * 10)
        lines.append(f"a{index}: &a{index} [{aliases}]")
    with pytest.raises(SweepFileError, match=r"s.yaml:5: makes more than 20000 values"):
        parse_sweep("\n".join(lines), file="s.yaml", task=None)


def test_a_huge_text_is_refused_without_reading_it() -> None:
    with pytest.raises(SweepFileError, match="does not look like a sweep file"):
        parse_sweep("a" * 1_000_001, file="s.yaml", task=None)


def test_a_password_is_never_repeated_in_the_message() -> None:
    with pytest.raises(SweepFileError) as caught:
        parse_sweep(
            B + V,
            file="s.yaml",
            task=CLASSIFIER_SCHEMA,
            overrides=["tracking.uri=http://user:secret@host"],
        )
    assert "secret" not in str(caught.value)
