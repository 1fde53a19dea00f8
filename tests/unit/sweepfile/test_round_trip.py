"""What is written is what is read, and nothing but `SweepFileError` ever comes of a text."""

import contextlib
import json
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.domain.sweep import Sweep
from hpo.domain.task import TaskSchema
from hpo.sweepfile.difference import compare_sweeps
from hpo.sweepfile.scalar import looks_numeric, resolve, suggest_number
from hpo.sweepfile.sweep import SweepFileError, dump_sweep, parse_sweep
from hpo.training.config import CLASSIFIER_SCHEMA
from tests.unit.sweepfile.sweeps import documents, sweeps

QUICK = settings(max_examples=150, deadline=None)


@QUICK
@given(sweeps())
def test_a_dumped_sweep_reads_back_equal(sweep: Sweep) -> None:
    text = json.dumps(dump_sweep(sweep), allow_nan=False)
    again = parse_sweep(text, file="x.yaml", task=None)
    assert again == sweep
    assert json.dumps(dump_sweep(again)) == text
    assert compare_sweeps(sweep, again) == []


@QUICK
@given(sweeps())
def test_a_dump_reads_back_equal_from_indented_json_too(sweep: Sweep) -> None:
    text = json.dumps(dump_sweep(sweep), indent=1, ensure_ascii=False)
    with contextlib.suppress(SweepFileError):  # characters that YAML wants escaped
        assert parse_sweep(text, file="x.yaml", task=None) == sweep


def refuses_or_reads(text: str, task: TaskSchema | None, overrides: tuple[str, ...] = ()) -> None:
    try:
        sweep = parse_sweep(text, file="x.yaml", task=task, overrides=overrides)
    except SweepFileError as error:
        told = error.problems
    else:
        told = ("read",)
        text = json.dumps(dump_sweep(sweep), allow_nan=False)
        assert parse_sweep(text, file="x.yaml", task=task) == sweep
    assert told
    assert all(told)


@QUICK
@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    refuses_or_reads(text, None)


@QUICK
@given(st.text("{}[]:,-?!&*#|>'\"%@`\\ \n\tab1.e<", max_size=60))
def test_any_yaml_punctuation_is_read_or_refused(text: str) -> None:
    refuses_or_reads(text, None)
    refuses_or_reads(f"baseline: {text}\nvary: {{lr: [1, 2]}}", CLASSIFIER_SCHEMA)


@QUICK
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    refuses_or_reads(content.decode("latin-1"), None)


@settings(max_examples=300, deadline=None)
@given(documents(), st.sampled_from([None, CLASSIFIER_SCHEMA]))
def test_any_document_is_read_or_refused(document: Any, task: TaskSchema | None) -> None:
    whole = {"baseline": {"data": "digits"}, "vary": {"lr": [0.1, 0.2]}, **document}
    refuses_or_reads(yaml.safe_dump(document), task)
    refuses_or_reads(yaml.safe_dump(whole, sort_keys=False), task)


@QUICK
@given(st.text(max_size=20), st.text(max_size=20))
def test_any_override_is_read_or_refused(key: str, value: str) -> None:
    text = "baseline: {data: digits}\nvary: {lr: [0.1, 0.2]}\n"
    refuses_or_reads(text, CLASSIFIER_SCHEMA, (f"{key}={value}",))
    refuses_or_reads(text, CLASSIFIER_SCHEMA, (f"vary.lr={value}", f"seed={key}"))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_that_python_writes_is_read_as_itself(number: float) -> None:
    assert resolve(repr(number)) == number
    assert resolve(json.dumps(number)) == number


@given(st.integers(-(10**50), 10**50))
def test_every_integer_is_read_as_itself(number: int) -> None:
    assert resolve(str(number)) == number


@given(st.text(max_size=12))
def test_a_suggested_number_is_a_number(text: str) -> None:
    suggestion = suggest_number(text)
    assert suggestion is None or looks_numeric(suggestion)
