"""Messages and answers survive the line, and nothing else passes for one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo.domain.decision import Action, Decision
from hpo.domain.trial import CheckpointRef, FailureKind, Measurement
from hpo.execution.message import (
    Answer,
    AttemptKey,
    CheckpointWritten,
    Failed,
    Finished,
    Message,
    Progress,
    ProtocolError,
    Report,
    Started,
)

COUNTS = st.integers(min_value=0, max_value=2**53)
FLOATS = st.floats(allow_nan=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
BODIES = st.one_of(
    st.builds(Started, resumed_epoch=COUNTS),
    st.builds(Progress, epoch=COUNTS, fraction=FLOATS),
    st.builds(
        Report,
        measurement=st.builds(
            Measurement,
            epoch=COUNTS,
            examples_seen=COUNTS,
            metrics=st.dictionaries(st.text(), FLOATS),
        ),
    ),
    st.builds(
        CheckpointWritten,
        checkpoint_kind=st.sampled_from(["last", "best"]),
        checkpoint=st.builds(
            CheckpointRef, uri=st.text(), sha256=st.text(), epoch=COUNTS, num_bytes=COUNTS
        ),
    ),
    st.builds(Finished, result=st.dictionaries(st.text(), JSON)),
    st.builds(Failed, failure=st.sampled_from(FailureKind), text=st.text(), traceback=st.text()),
)
MESSAGES = st.builds(
    Message,
    key=st.builds(AttemptKey, trial=st.integers(), attempt=COUNTS, token=st.text()),
    sequence=COUNTS,
    body=BODIES,
)
ANSWERS = st.builds(
    Answer,
    sequence=COUNTS,
    decision=st.builds(Decision, action=st.sampled_from(Action), reason=st.text()),
)


@given(MESSAGES)
def test_a_message_is_one_line_and_comes_back_equal(message: Message) -> None:
    line = message.to_line()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert Message.from_line(line) == message


@given(ANSWERS)
def test_an_answer_is_one_line_and_comes_back_equal(answer: Answer) -> None:
    line = answer.to_line()
    assert line.count(b"\n") == 1
    assert Answer.from_line(line) == answer


def test_a_number_that_is_not_finite_arrives_as_it_is() -> None:
    metrics = {"nan": float("nan"), "inf": float("inf"), "minus": float("-inf")}
    measurement = Measurement(epoch=1, examples_seen=1, metrics=metrics)
    key = AttemptKey(trial=0, attempt=1, token="t")  # noqa: S106  # names an attempt
    line = Message(key=key, sequence=1, body=Report(measurement=measurement)).to_line()
    body = Message.from_line(line).body
    assert isinstance(body, Report)
    assert repr(body.measurement.metrics) == repr(metrics)


GOOD: dict[str, Any] = {
    "version": 1,
    "kind": "started",
    "trial": 3,
    "attempt": 1,
    "token": "t",
    "sequence": 1,
    "body": {"resumed_epoch": 0},
}


def test_the_line_that_the_bad_ones_are_made_from_is_good() -> None:
    assert Message.from_line(json.dumps(GOOD).encode()).body == Started(resumed_epoch=0)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": None},
        {"kind": "unheard"},
        {"kind": ["started"]},
        {"kind": "progress"},
        {"kind": "failed", "body": {"failure": "unheard", "text": ""}},
        {"kind": "report", "body": {"measurement": {"epoch": 1}}},
        {"kind": "report", "body": []},
        {"kind": "checkpoint", "body": {"checkpoint_kind": "last"}},
        {"body": {}},
        {"body": {"resumed_epoch": 0, "more": 1}},
        {"body": None},
        {"body": "text"},
    ],
    ids=str,
)
def test_a_line_of_another_form_or_version_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        Message.from_line(json.dumps({**GOOD, **change}).encode())


@pytest.mark.parametrize("missing", list(GOOD))
def test_a_line_that_lacks_a_part_is_refused(missing: str) -> None:
    part = {key: value for key, value in GOOD.items() if key != missing}
    with pytest.raises(ProtocolError):
        Message.from_line(json.dumps(part).encode())


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_garbage_is_refused_and_nothing_else_is_raised(line: bytes) -> None:
    for read in (Message.from_line, Answer.from_line):
        with pytest.raises(ProtocolError):
            read(line)


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"action": "unheard"}, {"action": None}, {"action": []}],
    ids=str,
)
def test_an_answer_of_another_form_or_version_is_refused(change: dict[str, Any]) -> None:
    good = {"version": 1, "sequence": 1, "action": "prune", "reason": "worse"}
    assert Answer.from_line(json.dumps(good).encode()).decision.action is Action.PRUNE
    with pytest.raises(ProtocolError):
        Answer.from_line(json.dumps({**good, **change}).encode())


def test_an_error_quotes_only_the_beginning_of_a_long_line() -> None:
    with pytest.raises(ProtocolError) as refusal:
        Message.from_line(b"x" * 100_000)
    assert len(str(refusal.value)) < 300
