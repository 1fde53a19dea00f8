import math
from pathlib import Path

import pytest

from tracking.records import (
    ArtifactLogged,
    DatasetLogged,
    Destination,
    ExperimentDescribed,
    MetricsLogged,
    ParamsLogged,
    Record,
    RunEnded,
    RunReopened,
    RunStarted,
    TagsSet,
    TextLogged,
    from_json,
    to_json,
)

EVERY_KIND: list[Record] = [
    ExperimentDescribed(tags={"a": "b"}, note="# Why", at_ms=1),
    RunStarted(
        run_key="s/7", name="seven", parent_key="s", tags={"t": "1"}, params={"lr": 0.1}, at_ms=2
    ),
    MetricsLogged(run_key="s/7", values={"val_loss": 0.1 + 0.2}, step=1, at_ms=3),
    TagsSet(run_key="s/7", tags={"t": "2"}, at_ms=4),
    ParamsLogged(run_key="s/7", params={"depth": 3, "name": None, "bias": True}, at_ms=5),
    DatasetLogged(
        run_key="s/7", name="digits", digest="ab", source="sklearn", context="training", at_ms=6
    ),
    ArtifactLogged(run_key="s/7", path="/a/b", artifact_path=None, at_ms=7),
    TextLogged(run_key="s/7", text="é\n", artifact_file="x.txt", at_ms=8),
    RunEnded(run_key="s/7", status="FINISHED", at_ms=9),
    RunReopened(run_key="s/7", at_ms=10),
]


@pytest.mark.parametrize("record", EVERY_KIND, ids=lambda record: type(record).__name__)
def test_json_gives_back_an_equal_record(record: Record) -> None:
    again = from_json(to_json(record))
    assert again == record
    assert again.key == record.key


def test_no_two_records_share_a_key() -> None:
    assert len({record.key for record in EVERY_KIND}) == len(EVERY_KIND)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="val_loss of run s/7 at step 3"):
        MetricsLogged(run_key="s/7", values={"val_loss": value}, step=3, at_ms=0)


def test_a_step_measured_again_is_the_same_record() -> None:
    first = MetricsLogged(run_key="s/7", values={"a": 1.0, "b": 2.0}, step=3, at_ms=0)
    again = MetricsLogged(run_key="s/7", values={"b": 2.5, "a": 1.0}, step=3, at_ms=9)
    other = MetricsLogged(run_key="s/7", values={"best_a": 1.0}, step=3, at_ms=0)
    assert first.key == again.key != other.key


@pytest.mark.parametrize("run_key", ["", "a b", "a'b", "/a", "a/", "a//b", "a%", "../x y"])
def test_a_run_key_that_no_filter_could_hold_is_refused(run_key: str) -> None:
    with pytest.raises(ValueError, match="is not a run key"):
        RunReopened(run_key=run_key, at_ms=0)


def test_a_status_that_no_server_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="write FINISHED, FAILED or KILLED"):
        RunEnded(run_key="s", status="PRUNED", at_ms=0)  # type: ignore[arg-type]


def test_a_whole_sha256_is_refused_as_a_data_set_digest() -> None:
    with pytest.raises(ValueError, match="first 32 of a sha256"):
        DatasetLogged(
            run_key="s", name="d", digest="0" * 64, source="x", context="training", at_ms=0
        )


@pytest.mark.parametrize("text", ['{"v":2,"kind":"RunReopened"}', '{"v":1,"kind":"Nothing"}'])
def test_a_record_from_another_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        from_json(text)


def test_a_record_with_other_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="not a RunReopened"):
        from_json('{"v":1,"kind":"RunReopened","run":"s"}')


@pytest.mark.parametrize(
    ("uri", "absolute"),
    [
        ("sqlite:///mlflow.db", "sqlite:////home/mlflow.db"),
        ("sqlite:////other/mlflow.db", "sqlite:////other/mlflow.db"),
        ("http://host:5000", "http://host:5000"),
        ("postgresql://me@host/runs", "postgresql://me@host/runs"),
    ],
)
def test_a_relative_sqlite_path_counts_from_the_given_folder(uri: str, absolute: str) -> None:
    assert Destination(uri=uri, experiment="e").absolute_uri(Path("/home")) == absolute


def test_a_uri_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(ValueError, match="holds a password") as refusal:
        Destination(uri="postgresql://me:hunter2@host/runs", experiment="e")
    assert "hunter2" not in str(refusal.value)
