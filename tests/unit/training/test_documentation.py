"""The page on training names exactly the keys and metrics that there are."""

import re
from pathlib import Path

from hpo.sweepfile.section import show
from hpo.training.config import CLASSIFIER_SCHEMA, METRICS

PAGE = (Path(__file__).parents[3] / "docs" / "training.md").read_text()
KINDS = {
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
    "text": "text",
    "bool or text": "true, false or text",
}


def rows(text: str) -> list[list[str]]:
    return [[name, *rest.split(" | ")] for name, rest in re.findall(
        r"^\| `(.+?)` \| (.+) \|$", text, flags=re.M)]  # fmt: skip


def test_every_key_stands_there_once_with_its_type_and_default() -> None:
    keys = PAGE.split("## Keys\n")[1].split("\n## ")[0]
    documented = {row[0]: row[1:] for row in rows(keys)}
    assert len(documented) == len(rows(keys))
    assert set(documented) == set(CLASSIFIER_SCHEMA.keys)
    for name, key in CLASSIFIER_SCHEMA.keys.items():
        takes, unit, default, searching, source = documented[name]
        choices = key.choices and ", ".join(show(choice) for choice in key.choices)
        assert takes == (choices or KINDS[key.kind]), name
        assert default == ("required" if key.default is None else show(key.default)), name
        assert all((unit, searching, source)), name


def test_every_metric_stands_there_in_order() -> None:
    measured = PAGE.split("## What is measured\n")[1].split("\n## ")[0]
    assert tuple(row[0] for row in rows(measured)) == METRICS
