"""The shipped sweeps, the starter file and the reference page."""

import json
import re
import string
from pathlib import Path

import pytest

from hpo.domain.sweep import MedianPruning, NoPruning, SuccessiveHalving, Tpe
from hpo.sweepfile.key import LATER, LATER_STRATEGIES, SECTIONS
from hpo.sweepfile.method import PRUNERS, STRATEGIES
from hpo.sweepfile.section import show
from hpo.sweepfile.sweep import dump_sweep, load_sweep_file, parse_sweep
from hpo.sweepfile.warning import num_planned
from hpo.training.config import CLASSIFIER_SCHEMA

ROOT = Path(__file__).parents[3]
SWEEPS = sorted((ROOT / "sweeps").glob("*.yaml"))
STARTER = ROOT / "hpo" / "cli" / "templates" / "starter.yaml"
README = (ROOT / "sweeps" / "README.md").read_text()


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_shipped_sweep_can_be_used(path: Path) -> None:
    read = load_sweep_file(path, CLASSIFIER_SCHEMA)
    text = json.dumps(dump_sweep(read.sweep))
    assert parse_sweep(text, file="x.yaml", task=CLASSIFIER_SCHEMA) == read.sweep
    assert f"`{path.name}`" in README
    expected = {"batch_size": 1, "all_knobs": 1, "smoke": 1}
    assert len(read.warnings) == expected.get(path.stem, 0), read.warnings


@pytest.mark.parametrize(
    ("name", "num_trials"),
    [("lr", 21), ("batch_size", 18), ("weight_decay", 21), ("dropout", 24), ("augmentation", 18),
     ("all_knobs", 63), ("smoke", 3)],
)  # fmt: skip
def test_a_shipped_plan_has_as_many_trials_as_its_comment_says(name: str, num_trials: int) -> None:
    read = load_sweep_file(ROOT / "sweeps" / f"{name}.yaml", CLASSIFIER_SCHEMA)
    planned = num_planned(read.sweep)
    assert planned is not None
    assert planned * read.sweep.replicates == num_trials
    assert name == "smoke" or f"= {num_trials} trials" in read.text


def test_the_learning_rate_study_is_the_one_that_is_documented() -> None:
    sweep = load_sweep_file(ROOT / "sweeps" / "lr.yaml", CLASSIFIER_SCHEMA).sweep
    assert sweep.study == "lr-digits"
    assert sweep.space["lr"].points == (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1)
    assert sweep.pruner == NoPruning()


def test_the_search_over_five_knobs_prunes_and_ends_after_40_trials() -> None:
    sweep = load_sweep_file(ROOT / "sweeps" / "tpe.yaml", CLASSIFIER_SCHEMA).sweep
    assert set(sweep.space.names) == {"lr", "batch_size", "weight_decay", "dropout", "augment"}
    assert isinstance(sweep.pruner, SuccessiveHalving)
    assert sweep.budget.num_trials == 40


@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_the_starter_file_can_be_used_once_filled(strategy: str) -> None:
    text = string.Template(STARTER.read_text()).substitute(
        study="first",
        data="digits",
        data_root="data",
        download="false",
        model="simple_cnn",
        epochs="15",
        strategy=strategy,
        replicates="3",
    )
    sweep = parse_sweep(text, file="first.yaml", task=CLASSIFIER_SCHEMA)
    assert sweep.study == "first"
    for line in text.splitlines():  # what is commented out works too
        if match := re.match(r"  # (\w+): (.*)", line):
            override = f"vary.{match[1]}={match[2]}"
            if strategy != "one-at-a-time" and match[1] == "augment":
                override = "augment=0.5"
            parse_sweep(text, file="first.yaml", task=CLASSIFIER_SCHEMA, overrides=[override])


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading."""
    section = re.split(r"^#+ ", README.split(f"{heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    rows = re.findall(r"^\| `(.+?)` \| (.+) \|$", section, flags=re.M)
    return [[name, *rest.split(" | ")] for name, rest in rows]


@pytest.mark.parametrize("section", list(SECTIONS))
def test_the_reference_names_exactly_the_keys_of_the_parser(section: str) -> None:
    heading = f"### {section}" if section else "### Top of the file"
    documented = [row[:3] for row in table(heading)]
    assert documented == [[key.name, key.takes, key.default] for key in SECTIONS[section]]


def test_the_reference_names_exactly_the_keys_of_the_classifier() -> None:
    kinds = {"int": "whole number", "float": "number", "bool": "true or false", "text": "text"}
    kinds["bool or text"] = "true, false or text"
    expected = [
        [
            key.name,
            ", ".join(show(choice) for choice in key.choices) if key.choices else kinds[key.kind],
            "required" if key.default is None else show(key.default),
            key.doc,
        ]
        for key in CLASSIFIER_SCHEMA.keys.values()
    ]
    assert table("## The classifier's keys") == expected


def test_the_reference_names_every_metric_and_all_that_is_still_to_come() -> None:
    words = {*CLASSIFIER_SCHEMA.metrics, *LATER_STRATEGIES, *LATER["vary"], *LATER[""]}
    words |= {
        f"{section}.{key}" for section in ("strategy", "execution") for key in LATER[section]
    }
    words |= {*STRATEGIES, *PRUNERS}
    assert [word for word in sorted(words) if f"`{word}`" not in README] == []


def test_the_defaults_of_the_reference_are_those_of_the_parser() -> None:
    text = "baseline: {data: digits}\nvary: {lr: [1e-3, 1e-2]}\n"
    plan = dump_sweep(parse_sweep(text, file="s.yaml", task=CLASSIFIER_SCHEMA))
    search = parse_sweep(text + "strategy: tpe\n", file="s.yaml", task=CLASSIFIER_SCHEMA)
    defaults = {key.name: key.default for key in SECTIONS[""]}
    for key in ("replicates", "seed"):
        assert defaults[key] == str(plan[key])
    assert defaults["strategy"] == plan["strategy"]["name"]
    assert defaults["objective"] == plan["objective"]["metric"]
    assert plan["objective"]["at"] == "best"
    assert plan["pruner"] == {"name": "none"}
    assert plan["budget"] == {}
    assert search.pruner == MedianPruning()
    assert search.strategy == Tpe()
    assert search.budget.num_trials == 40
    options = {
        (section, key.name): key.default
        for section in ("strategy", "pruner")
        for key in SECTIONS[section]
    }
    for kind in (Tpe(), *(pruner() for pruner in PRUNERS.values())):
        section = "strategy" if isinstance(kind, Tpe) else "pruner"
        for name in kind.__dataclass_fields__:
            if name != "name":
                assert options[section, name] == str(getattr(kind, name))


def test_every_example_of_the_reference_can_be_used() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", README, flags=re.S)
    assert len(examples) >= 7
    whole, *parts = examples
    parse_sweep(whole, file="s.yaml", task=CLASSIFIER_SCHEMA)
    for part in parts:
        for piece in re.split(r"\n(?=\w)", part.strip()):
            text = "study: x\nbaseline: {data: digits, dropout: 0.2}\n"
            if not piece.startswith("strategy"):
                text += "strategy: tpe\n"
            if not piece.startswith("vary"):
                text += "vary: {lr: [1e-3, 1e-2]}\n"
            parse_sweep(text + piece, file="s.yaml", task=CLASSIFIER_SCHEMA)
