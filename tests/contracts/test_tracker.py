"""Every tracker keeps the promises written in `tracking.tracker.Tracker`."""

import json
import math
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from tracking.memory import MemoryTracker
from tracking.records import (
    ArtifactLogged,
    DatasetLogged,
    ExperimentDescribed,
    MetricsLogged,
    ParamsLogged,
    Record,
    RunEnded,
    RunReopened,
    RunStarted,
    TagsSet,
    TextLogged,
)
from tracking.tracker import Tracker

EXPERIMENT = "lr digits"

# MLflow 3.17 uses what SQLAlchemy 2.1 will drop.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")


@dataclass(kw_only=True)
class SeenRun:
    """A run as its readers see it."""

    name: str
    parent_key: str | None
    status: str
    started_at_ms: int
    ended_at_ms: int | None
    tags: dict[str, str]
    params: dict[str, str]
    points: list[tuple[str, int, int, float]]
    datasets: list[tuple[str, str]]
    artifacts: dict[str, bytes] = field(default_factory=dict)


class Store(Protocol):
    """A place that trackers deliver to, and how to look into it."""

    def tracker(self) -> Tracker: ...

    def runs(self) -> dict[str, SeenRun]: ...

    def experiment_tags(self) -> dict[str, str]: ...


class MemoryStore:
    def __init__(self) -> None:
        self._tracker = MemoryTracker()

    def tracker(self) -> Tracker:
        return self._tracker

    def runs(self) -> dict[str, SeenRun]:
        return {
            key: SeenRun(
                name=run.name,
                parent_key=run.parent_key,
                status=run.status,
                started_at_ms=run.started_at_ms,
                ended_at_ms=run.ended_at_ms,
                tags=run.tags,
                params=run.params,
                points=sorted(run.points),
                datasets=sorted(run.datasets),
                artifacts=run.artifacts,
            )
            for key, run in self._tracker.experiments[EXPERIMENT].runs.items()
        }

    def experiment_tags(self) -> dict[str, str]:
        experiment = self._tracker.experiments[EXPERIMENT]
        note = {} if experiment.note is None else {"mlflow.note.content": experiment.note}
        return experiment.tags | note


class MlflowStore:
    """Read with SQL, not with the client that wrote."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.path = home / "mlflow.db"

    def tracker(self) -> Tracker:
        from tracking.mlflow_tracker import MlflowTracker

        return MlflowTracker(f"sqlite:///{self.path}", self._home / "mlartifacts")

    def query(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(text, values).fetchall()

    def runs(self) -> dict[str, SeenRun]:
        rows = self.query(
            "SELECT run_uuid, runs.name, status, start_time, end_time, artifact_uri FROM runs "
            "JOIN experiments USING (experiment_id) WHERE experiments.name = ?",
            EXPERIMENT,
        )
        key_of, runs = {}, {}
        for id_, name, status, start, end, artifact_uri in rows:
            tags = dict(self.query("SELECT key, value FROM tags WHERE run_uuid = ?", id_))
            tags.pop("mlflow.runName")
            key = key_of[id_] = tags.pop("hpo.run_key")
            assert key not in runs, f"two runs of {key}"
            folder = Path(artifact_uri.removeprefix("file://"))
            runs[key] = SeenRun(
                name=name,
                parent_key=tags.pop("mlflow.parentRunId", None),
                status=status,
                started_at_ms=start,
                ended_at_ms=end,
                tags=tags,
                params=dict(self.query("SELECT key, value FROM params WHERE run_uuid = ?", id_)),
                points=self.query(
                    "SELECT key, step, timestamp, value FROM metrics WHERE run_uuid = ? "
                    "ORDER BY key, step, timestamp, value",
                    id_,
                ),
                datasets=self.query(
                    "SELECT name, digest FROM inputs JOIN datasets ON dataset_uuid = source_id "
                    "WHERE destination_id = ? ORDER BY name, digest",
                    id_,
                ),
                artifacts={
                    str(file.relative_to(folder)): file.read_bytes()
                    for file in folder.rglob("*")
                    if file.is_file()
                },
            )
        for run in runs.values():
            run.parent_key = run.parent_key and key_of[run.parent_key]
        return runs

    def experiment_tags(self) -> dict[str, str]:
        rows = self.query(
            "SELECT key, value FROM experiment_tags JOIN experiments USING (experiment_id) "
            "WHERE name = ? AND key <> 'hpo.artifact_folder'",
            EXPERIMENT,
        )
        return dict(rows)


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A fresh MLflow database, made once: that takes seconds."""
    store = MlflowStore(tmp_path_factory.mktemp("template"))
    store.tracker()
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return store.path.read_bytes()


@pytest.fixture(params=["memory", pytest.param("mlflow", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    mlflow_store = MlflowStore(tmp_path)
    mlflow_store.path.write_bytes(request.getfixturevalue("empty_database"))
    return mlflow_store


def study(folder: Path) -> list[Record]:
    """Everything that can be said, about one parent and three trials."""
    (folder / "plots" / "deep").mkdir(parents=True, exist_ok=True)
    (folder / "plots" / "deep" / "b.txt").write_bytes(b"b")
    (folder / "plots" / "a.txt").write_bytes(b"a")
    records: list[Record] = [
        ExperimentDescribed(tags={"mlflow.experiment.primaryMetric.name": "val_loss",
                                  "mlflow.experiment.primaryMetric.greaterIsBetter": "False"},
                            note="# Learning rate\nWhich?", at_ms=1000),
        RunStarted(run_key="u1", name="lr", parent_key=None, tags={"hpo.study": "lr"},
                   params={}, at_ms=1000),
    ]  # fmt: skip
    for number in range(3):
        key = f"u1/{number}"
        records += [
            RunStarted(run_key=key, name=f"lr/{number}", parent_key="u1",
                       tags={"hpo.trial": f"lr/{number}", "state": "RUNNING"},
                       params={"lr": 0.1 * number, "depth": 3}, at_ms=2000 + number),
            DatasetLogged(run_key=key, name="digits", digest="abc", source="sklearn:digits",
                          context="training", at_ms=2000),
        ]  # fmt: skip
        records += [
            MetricsLogged(run_key=key, step=step, at_ms=3000 + step,
                          values={"val_loss": math.exp(-step) / 3, "val_accuracy": step / 7})
            for step in range(1, 6)
        ]  # fmt: skip
        records += [
            TagsSet(run_key=key, tags={"state": "COMPLETE", "best_epoch": "5"}, at_ms=4000),
            ParamsLogged(run_key=key, params={"num_parameters": 123}, at_ms=4000),
            TextLogged(run_key=key, text='{"lr": 0.1}', artifact_file="config/full.json",
                       at_ms=4000),
            ArtifactLogged(run_key=key, path=str(folder / "plots"), artifact_path="plots",
                           at_ms=4000),
            RunEnded(run_key=key, status="FINISHED", at_ms=5000 + number),
        ]  # fmt: skip
    return [*records, RunEnded(run_key="u1", status="FINISHED", at_ms=6000)]


def deliver(tracker: Tracker, records: list[Record]) -> None:
    delivery = tracker.deliver(EXPERIMENT, records)
    assert (delivery.refused, delivery.error) == ({}, None)
    assert sorted(delivery.delivered) == list(range(len(records)))


def test_everything_said_about_a_study_is_there(store: Store, tmp_path: Path) -> None:
    deliver(store.tracker(), study(tmp_path))
    assert store.experiment_tags() == {
        "mlflow.experiment.primaryMetric.name": "val_loss",
        "mlflow.experiment.primaryMetric.greaterIsBetter": "False",
        "mlflow.note.content": "# Learning rate\nWhich?",
    }
    runs = store.runs()
    assert sorted(runs) == ["u1", "u1/0", "u1/1", "u1/2"]
    assert runs["u1"].parent_key is None
    trial = runs["u1/2"]
    assert trial == SeenRun(
        name="lr/2",
        parent_key="u1",
        status="FINISHED",
        started_at_ms=2002,
        ended_at_ms=5002,
        tags={"hpo.trial": "lr/2", "state": "COMPLETE", "best_epoch": "5"},
        params={"lr": "0.2", "depth": "3", "num_parameters": "123"},
        points=sorted(
            [("val_loss", step, 3000 + step, math.exp(-step) / 3) for step in range(1, 6)]
            + [("val_accuracy", step, 3000 + step, step / 7) for step in range(1, 6)]
        ),
        datasets=[("digits", "abc")],
        artifacts={
            "config/full.json": b'{"lr": 0.1}',
            "plots/a.txt": b"a",
            "plots/deep/b.txt": b"b",
        },
    )


def test_delivering_everything_twice_changes_nothing(store: Store, tmp_path: Path) -> None:
    records = study(tmp_path)
    tracker = store.tracker()
    deliver(tracker, records)
    once = store.runs()
    deliver(tracker, records)
    deliver(store.tracker(), records)
    assert store.runs() == once


def test_one_record_at_a_time_gives_the_same_as_all_at_once(store: Store, tmp_path: Path) -> None:
    records = study(tmp_path)
    tracker = store.tracker()
    for record in records:
        deliver(tracker, [record])
    piecewise = store.runs()
    deliver(tracker, records)
    assert store.runs() == piecewise
    assert {run.status for run in piecewise.values()} == {"FINISHED"}


@pytest.mark.parametrize("num_arrived", [1, 2, 9, 30])
def test_a_delivery_that_was_cut_is_completed_by_another_tracker(
    store: Store, tmp_path: Path, num_arrived: int
) -> None:
    records = study(tmp_path)
    deliver(store.tracker(), records[:num_arrived])
    deliver(store.tracker(), records)
    runs = store.runs()
    assert [len(run.points) for run in runs.values()].count(10) == 3
    assert {run.status for run in runs.values()} == {"FINISHED"}


def test_a_run_that_goes_on_is_running_again(store: Store) -> None:
    start = RunStarted(run_key="u", name="n", parent_key=None, tags={}, params={}, at_ms=1)
    tracker = store.tracker()
    deliver(tracker, [start, RunEnded(run_key="u", status="KILLED", at_ms=2)])
    assert (store.runs()["u"].status, store.runs()["u"].ended_at_ms) == ("KILLED", 2)
    deliver(tracker, [RunReopened(run_key="u", at_ms=3)])
    assert store.runs()["u"].status == "RUNNING"
    deliver(tracker, [RunReopened(run_key="u", at_ms=4),
                      RunEnded(run_key="u", status="FAILED", at_ms=5)])  # fmt: skip
    assert (store.runs()["u"].status, store.runs()["u"].ended_at_ms) == ("FAILED", 5)


def refusals(records: list[Record], store: Store) -> dict[str, str]:
    delivery = store.tracker().deliver(EXPERIMENT, records)
    assert delivery.error is None
    assert sorted([*delivery.delivered, *delivery.refused]) == list(range(len(records)))
    return {records[position].key: why for position, why in delivery.refused.items()}


def test_a_vanished_artifact_is_refused_and_the_rest_arrives(store: Store, tmp_path: Path) -> None:
    gone = ArtifactLogged(
        run_key="u1/0", path=str(tmp_path / "gone.png"), artifact_path=None, at_ms=1
    )
    records = study(tmp_path)
    records.insert(4, gone)
    refused = refusals(records, store)
    assert list(refused) == [gone.key]
    assert "gone.png" in refused[gone.key]
    assert store.runs()["u1/0"].status == "FINISHED"
    assert len(store.runs()["u1/0"].points) == 10


def test_a_parameter_that_changes_is_refused_and_the_rest_arrives(
    store: Store, tmp_path: Path
) -> None:
    change = ParamsLogged(run_key="u1/1", params={"lr": 0.7}, at_ms=9)
    refused = refusals([*study(tmp_path), change], store)
    assert list(refused) == [change.key]
    assert "lr" in refused[change.key]
    assert store.runs()["u1/1"].params["lr"] == "0.1"
    assert len(store.runs()["u1/1"].points) == 10


def test_a_run_that_never_started_is_refused(store: Store) -> None:
    orphan = MetricsLogged(run_key="u9/0", values={"a": 1.0}, step=1, at_ms=1)
    assert "u9/0 is unknown" in refusals([orphan], store)[orphan.key]


@pytest.fixture
def mlflow(tmp_path: Path, empty_database: bytes) -> MlflowStore:
    store = MlflowStore(tmp_path / "home")
    store.path.parent.mkdir()
    store.path.write_bytes(empty_database)
    return store


@pytest.mark.slow
def test_search_runs_shows_one_parent_and_its_children(
    mlflow: MlflowStore, tmp_path: Path
) -> None:
    from mlflow import MlflowClient

    deliver(mlflow.tracker(), study(tmp_path))
    client = MlflowClient(f"sqlite:///{mlflow.path}")
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    ids = [experiment.experiment_id]
    (parent,) = client.search_runs(ids, "tags.`hpo.study` = 'lr'")
    children = client.search_runs(ids, f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    assert len(children) == 3
    best = client.search_runs(ids, order_by=["metrics.val_loss ASC"], max_results=1)[0]
    assert best.data.metrics["val_loss"] == math.exp(-5) / 3
    assert [file.path for file in client.list_artifacts(best.info.run_id, "plots")] == [
        "plots/a.txt",
        "plots/deep",
    ]
    assert best.inputs is not None
    (dataset,) = best.inputs.dataset_inputs
    assert json.loads(dataset.dataset.source) == {"uri": "sklearn:digits"}
    assert [(tag.key, tag.value) for tag in dataset.tags] == [("mlflow.data.context", "training")]


@pytest.mark.slow
def test_a_bad_name_is_refused_alone_even_at_the_start(mlflow: MlflowStore) -> None:
    records: list[Record] = [
        RunStarted(run_key="u", name="n", parent_key=None, tags={"good": "1", "x" * 251: "2"},
                   params={"good": 1, "bad=": 2}, at_ms=1),
        MetricsLogged(run_key="u", values={"bad(1)": 1.0, "good": 1.0}, step=1, at_ms=2),
        RunEnded(run_key="u", status="FINISHED", at_ms=3),
    ]  # fmt: skip
    refused = refusals(records, mlflow)
    assert set(refused) <= {records[0].key, records[1].key}
    run = mlflow.runs()["u"]
    assert run.status == "FINISHED"
    assert run.tags["good"] == "1"
    assert run.params == {"good": "1"}
    assert run.points == [("good", 1, 2, 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("length", [501, 6001, 20000])
def test_long_values_are_cut_with_a_tag_that_says_so(mlflow: MlflowStore, length: int) -> None:
    start = RunStarted(run_key="u", name="n", parent_key=None, tags={"long": "t" * length},
                       params={"text": "p" * length}, at_ms=1)  # fmt: skip
    deliver(mlflow.tracker(), [start])
    run = mlflow.runs()["u"]
    assert run.params["text"] == "p" * min(length, 6000)
    assert run.tags["long"] == "t" * min(length, 8000)
    told = {name: text for name, text in run.tags.items() if name.startswith("hpo.cut.")}
    expected = {}
    if length > 6000:
        expected["hpo.cut.text"] = f"shows the first 6000 of {length} characters"
    if length > 8000:
        expected["hpo.cut.long"] = f"shows the first 8000 of {length} characters"
    assert told == expected


@pytest.mark.slow
def test_a_long_note_is_cut_with_a_tag_that_says_so(mlflow: MlflowStore) -> None:
    deliver(mlflow.tracker(), [ExperimentDescribed(tags={}, note="n" * 20001, at_ms=1)])
    tags = mlflow.experiment_tags()
    assert tags["mlflow.note.content"] == "n" * 20000
    assert tags["hpo.cut.mlflow.note.content"] == "shows the first 20000 of 20001 characters"


@pytest.mark.slow
def test_more_than_a_call_takes_is_delivered(mlflow: MlflowStore) -> None:
    records: list[Record] = [
        RunStarted(run_key="u", name="n", parent_key=None, tags={f"t{i}": "x" for i in range(150)},
                   params={f"p{i}": i for i in range(300)}, at_ms=1),
        *(MetricsLogged(run_key="u", values={"a": i / 7, "b": i / 3}, step=i, at_ms=i)
          for i in range(1, 1201)),
    ]  # fmt: skip
    deliver(mlflow.tracker(), records)
    run = mlflow.runs()["u"]
    assert (len(run.tags), len(run.params), len(run.points)) == (150, 300, 2400)


@pytest.mark.slow
def test_a_deleted_experiment_keeps_its_records_waiting_until_restored(
    mlflow: MlflowStore, tmp_path: Path
) -> None:
    from mlflow import MlflowClient

    records = study(tmp_path)
    tracker = mlflow.tracker()
    deliver(tracker, records[:9])
    client = MlflowClient(f"sqlite:///{mlflow.path}")
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    client.delete_experiment(experiment.experiment_id)
    delivery = tracker.deliver(EXPERIMENT, records)
    assert (list(delivery.delivered), delivery.refused) == ([], {})
    assert f"experiments restore --experiment-id {experiment.experiment_id}" in (
        delivery.error or ""
    )
    client.restore_experiment(experiment.experiment_id)
    deliver(tracker, records)
    assert len(mlflow.runs()) == 4


@pytest.mark.slow
def test_a_run_deleted_by_hand_is_neither_filled_nor_made_again(
    mlflow: MlflowStore, tmp_path: Path
) -> None:
    from mlflow import MlflowClient

    records = study(tmp_path)
    deliver(mlflow.tracker(), records[:9])
    ((id_,),) = mlflow.query("SELECT run_uuid FROM tags WHERE value = 'u1/0'")
    MlflowClient(f"sqlite:///{mlflow.path}").delete_run(id_)
    refused = refusals(records, mlflow)
    assert {key.split("#")[0] for key in refused} == {"u1/0"}
    assert f"runs restore --run-id {id_}" in next(iter(refused.values()))
    assert len(mlflow.runs()) == 4


@pytest.mark.slow
def test_a_home_that_was_moved_keeps_its_artifacts_together(
    mlflow: MlflowStore, tmp_path: Path
) -> None:
    records = study(tmp_path)
    deliver(mlflow.tracker(), records[:15])
    before = mlflow.runs()["u1/0"].artifacts
    assert before
    moved = MlflowStore(mlflow.path.parent.rename(tmp_path / "elsewhere"))
    deliver(moved.tracker(), records[15:])
    assert moved.runs()["u1/0"].artifacts == moved.runs()["u1/1"].artifacts == before
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_a_run_whose_creation_was_not_confirmed_is_found_again(
    mlflow: MlflowStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    create_run = MlflowClient.create_run

    def lose_the_answer(client: MlflowClient, *args: Any) -> object:
        create_run(client, *args)
        raise MlflowException("API request failed with timeout exception")

    records, tracker = study(tmp_path), mlflow.tracker()
    deliver(tracker, records[:2])
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "create_run", lose_the_answer)
        delivery = tracker.deliver(EXPERIMENT, records[2:5])
    assert (list(delivery.delivered), delivery.refused) == ([], {})
    assert "timeout" in (delivery.error or "")
    deliver(tracker, records)
    assert len(mlflow.runs()) == 4


@pytest.mark.slow
def test_processes_that_open_a_new_store_at_once_all_succeed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tracking.records import RunStarted\n"
        "from tracking.mlflow_tracker import MlflowTracker\n"
        "tracker = MlflowTracker(f'sqlite:///{sys.argv[1]}/mlflow.db', Path(sys.argv[1], 'a'))\n"
        "start = RunStarted(run_key=sys.argv[2], name='n', parent_key=None, tags={}, params={},"
        " at_ms=1)\n"
        f"delivery = tracker.deliver('{EXPERIMENT}', [start])\n"
        "assert list(delivery.delivered) == [0], delivery"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), f"u{number}"], stderr=subprocess.PIPE
        )
        for number in range(3)
    ]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    assert sorted(MlflowStore(tmp_path).runs()) == ["u0", "u1", "u2"]


@pytest.mark.slow
def test_a_relative_database_is_refused(tmp_path: Path) -> None:
    from tracking.mlflow_tracker import MlflowTracker

    with pytest.raises(ValueError, match="write an absolute path"):
        MlflowTracker("sqlite:///mlflow.db", tmp_path)
