"""Delivers records to MLflow. The only file that imports it, and only its client: no global state.

What a repeated delivery leans on, by measurement on MLflow 3.17.2:

- a run is created with all its tags in one transaction, so that a process killed right after it
  leaves a run that is found by its run key;
- a metric row's primary key is (name, time, step, run, value), and inserting it again is ignored;
- a parameter may be logged again with the same value; tags are replaced; a data set is stored once
  for its name and digest; an artifact is written over.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from mlflow import MlflowClient
from mlflow.entities import (
    Dataset,
    DatasetInput,
    Experiment,
    InputTag,
    Metric,
    Param,
    RunTag,
    ViewType,
)
from mlflow.exceptions import MlflowException, RestException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from tracking.limits import cut_experiment_tags, cut_params, cut_tags
from tracking.mlflow_store import (
    ARTIFACTS_TAG,
    alone_with,
    artifact_folder,
    move_artifacts,
    sqlite_path,
)
from tracking.outcome import Outcome
from tracking.records import (
    ArtifactLogged,
    DatasetLogged,
    ExperimentDescribed,
    MetricsLogged,
    ParamsLogged,
    ParamValue,
    Record,
    RunEnded,
    RunReopened,
    RunStarted,
    TagsSet,
    TextLogged,
)
from tracking.tracker import RUN_KEY_TAG, Delivery, by_run

_NOTE_TAG = "mlflow.note.content"
_PARENT_TAG = "mlflow.parentRunId"

_Item: TypeAlias = Metric | Param | RunTag
_Numbered: TypeAlias = Sequence[tuple[int, Record]]
"""Records with their positions in the batch."""


class _UnreachableError(Exception):
    """Nothing can be delivered to this experiment now."""


class _LostFileError(Exception):
    """An artifact is gone before it was delivered."""


class MlflowTracker:
    """Keeps the promises of `Tracker` on an MLflow server or database."""

    def __init__(self, uri: str, artifact_root: Path, files_root: Path | None = None) -> None:
        """Open the store; a local database is created at its first use.

        Args:
            uri: Of the server or database; a SQLite path must be absolute.
            artifact_root: Folder for the artifacts of a database that no server manages. A server
                decides by itself.
            files_root: What relative paths in `ArtifactLogged` count from; the current folder
                when None.

        Raises:
            ValueError: The SQLite path is relative.
            MlflowException: The database cannot be opened, or is of another MLflow version.
        """
        self._database = sqlite_path(uri)
        if self._database is not None and not self._database.is_absolute():
            raise ValueError(f"{uri} depends on the current folder; write an absolute path")
        self._uri = uri
        self._is_remote = uri.startswith(("http:", "https:"))
        self._artifact_root = artifact_root.absolute()
        self._files_root = (files_root or Path()).absolute()
        opening = alone_with(uri, self._artifact_root, self._create_store)
        with contextlib.nullcontext() if self._is_remote else opening:
            self._client = MlflowClient(uri)
        self._run_ids: dict[tuple[str, str], str] = {}
        # Without any run at first, so that we know all. Spares a search for each: 3 ms, later 10.
        self._new_families: set[tuple[str, str]] = set()

    def deliver(self, experiment: str, records: Sequence[Record]) -> Delivery:
        """Deliver a batch that belongs to one experiment."""
        outcome = Outcome()
        try:
            opened = self._open_experiment(experiment)
            for run_key, positions in by_run(records).items():
                numbered = [(position, records[position]) for position in positions]
                if run_key is None:
                    self._describe(opened, numbered, outcome)
                else:
                    self._deliver_run(opened, run_key, numbered, outcome)
                outcome.tried.extend(positions)
        except _UnreachableError as outage:
            outcome.error = str(outage)
        return outcome.to_delivery()

    def _create_store(self, uri: str) -> None:
        store = SqlAlchemyStore(uri, self._artifact_root.as_uri())  # type: ignore[no-untyped-call]
        store.engine.dispose()

    def _open_experiment(self, name: str) -> Experiment:
        """Return the experiment, created or moved if need be."""
        try:
            experiment = self._client.get_experiment_by_name(name)
            if experiment is None:
                experiment = self._create_experiment(name)
            folder = experiment.tags.get(ARTIFACTS_TAG)
            if self._database is not None and folder is not None:
                id_, now = experiment.experiment_id, (self._artifact_root / folder).as_uri()
                if experiment.artifact_location != now:
                    move_artifacts(self._database, id_, experiment.artifact_location, now)
        except MlflowException as error:
            raise _UnreachableError(str(error)) from error
        if experiment.lifecycle_stage == "deleted":
            raise _UnreachableError(
                f"experiment '{name}' is deleted in {self._uri}; bring it back with: "
                f"MLFLOW_TRACKING_URI={self._uri} "
                f"mlflow experiments restore --experiment-id {experiment.experiment_id}"
            )
        return experiment

    def _create_experiment(self, name: str) -> Experiment:
        try:
            if self._is_remote:
                id_ = self._client.create_experiment(name)
            else:
                folder = artifact_folder(name)
                location = (self._artifact_root / folder).as_uri()
                id_ = self._client.create_experiment(name, location, {ARTIFACTS_TAG: folder})
        except MlflowException:
            found = self._client.get_experiment_by_name(name)
            if found is None:
                raise
            return found  # Another process was faster.
        return self._client.get_experiment(id_)

    def _describe(self, experiment: Experiment, numbered: _Numbered, outcome: Outcome) -> None:
        for position, record in numbered:
            if not isinstance(record, ExperimentDescribed):
                continue
            note = {} if record.note is None else {_NOTE_TAG: record.note}
            for name, text in cut_experiment_tags({**record.tags, **note}).items():
                try:
                    self._client.set_experiment_tag(experiment.experiment_id, name, text)
                except MlflowException as error:
                    self._judge(error, experiment.name, [position], outcome)

    def _deliver_run(
        self, experiment: Experiment, run_key: str, numbered: _Numbered, outcome: Outcome
    ) -> None:
        positions = [position for position, _ in numbered]
        started = next((r for _, r in numbered if isinstance(r, RunStarted)), None)
        if started is not None and started.parent_key in outcome.postponed_runs:
            outcome.postponed.update(positions)
            outcome.postponed_runs.add(run_key)
            return
        has_tags = False
        try:
            run_id = self._find_run(experiment, run_key)
            if run_id is None and started is not None:
                run_id, has_tags = self._create_run(experiment, started)
        except MlflowException as error:
            self._judge(error, experiment.name, positions, outcome)
            if outcome.postponed.issuperset(positions):
                outcome.postponed_runs.add(run_key)
            return
        if run_id is None:
            outcome.refuse(positions, f"run {run_key} is unknown: its start was never delivered")
            return
        self._log(experiment, run_id, _items(numbered, skip_start_tags=has_tags), outcome)
        for position, record in numbered:
            try:
                self._attach(run_id, record)
            except MlflowException as error:
                self._judge(error, experiment.name, [position], outcome)
            except _LostFileError as error:
                outcome.refuse([position], error)
            except Exception as error:  # noqa: BLE001  every artifact store raises its own kind
                outcome.postpone([position], error)
        self._set_state(experiment, run_id, numbered, outcome)

    def _find_run(self, experiment: Experiment, run_key: str) -> str | None:
        known = self._run_ids.get((experiment.experiment_id, run_key))
        if known is not None:
            return known
        family = _family(experiment, run_key)
        if family in self._new_families:
            return None
        found_id = self._search(experiment, f"= '{run_key}'")
        if found_id is not None:
            return self._remember(experiment, run_key, found_id)
        is_root = run_key == family[1]
        if is_root and self._search(experiment, f"LIKE '{run_key}/%'") is None:
            self._new_families.add(family)
        return None

    def _search(self, experiment: Experiment, condition: str) -> str | None:
        """Return a run whose key fulfils the condition; it may be one deleted by hand."""
        found = self._client.search_runs(
            [experiment.experiment_id],
            f"tags.`{RUN_KEY_TAG}` {condition}",
            run_view_type=ViewType.ALL,
            max_results=1,
        )
        return found[0].info.run_id if found else None

    def _create_run(self, experiment: Experiment, started: RunStarted) -> tuple[str, bool]:
        """Return the new run's ID and whether it has its tags, which may hold a bad one."""
        own_tags = {RUN_KEY_TAG: started.run_key}
        if started.parent_key is not None:
            parent_id = self._find_run(experiment, started.parent_key)
            if parent_id is not None:
                own_tags[_PARENT_TAG] = parent_id
        family = _family(experiment, started.run_key)
        is_new = family in self._new_families
        # A call that fails may have created it all the same: then it must be looked for.
        self._new_families.discard(family)
        id_, start, name = experiment.experiment_id, started.at_ms, started.name
        try:
            tags = {**cut_tags(started.tags), **own_tags}
            run, has_tags = self._client.create_run(id_, start, tags, name), True
        except MlflowException as error:
            if not self._is_final(error, experiment.name):
                raise
            run, has_tags = self._client.create_run(id_, start, own_tags, name), False
        if is_new:
            self._new_families.add(family)
        return self._remember(experiment, started.run_key, run.info.run_id), has_tags

    def _remember(self, experiment: Experiment, run_key: str, run_id: str) -> str:
        self._run_ids[experiment.experiment_id, run_key] = run_id
        return run_id

    def _log(
        self,
        experiment: Experiment,
        run_id: str,
        items: Sequence[tuple[int, _Item]],
        outcome: Outcome,
    ) -> None:
        """Log in one call; when that is refused, one by one, to find the bad ones."""
        try:
            self._log_batch(run_id, [item for _, item in items])
        except MlflowException as error:
            if not self._is_final(error, experiment.name):
                outcome.postpone([position for position, _ in items], error)
                return
        else:
            return
        if self._client.get_run(run_id).info.lifecycle_stage == "deleted":
            reason = f"its run was deleted by hand; `mlflow runs restore --run-id {run_id}` first"
            outcome.refuse([position for position, _ in items], reason)
            return
        for position, item in items:
            try:
                self._log_batch(run_id, [item])
            except MlflowException as error:
                self._judge(error, experiment.name, [position], outcome)

    def _log_batch(self, run_id: str, items: Sequence[_Item]) -> None:
        self._client.log_batch(
            run_id,
            metrics=[item for item in items if isinstance(item, Metric)],
            params=[item for item in items if isinstance(item, Param)],
            tags=[item for item in items if isinstance(item, RunTag)],
        )

    def _attach(self, run_id: str, record: Record) -> None:
        match record:
            case DatasetLogged():
                self._client.log_inputs(run_id, datasets=[_dataset_input(record)])
            case TextLogged():
                self._client.log_text(run_id, record.text, record.artifact_file)
            case ArtifactLogged():
                path = self._files_root / record.path
                if not os.access(path, os.R_OK):
                    raise _LostFileError(f"{path} does not exist or cannot be read")
                if path.is_dir():
                    self._client.log_artifacts(run_id, str(path), record.artifact_path)
                else:
                    self._client.log_artifact(run_id, str(path), record.artifact_path)
            case _:
                pass

    def _set_state(
        self, experiment: Experiment, run_id: str, numbered: _Numbered, outcome: Outcome
    ) -> None:
        changes = [(p, r) for p, r in numbered if isinstance(r, RunEnded | RunReopened)]
        if not changes:
            return
        position, last = changes[-1]
        try:
            if isinstance(last, RunEnded):
                self._client.set_terminated(run_id, last.status, last.at_ms)
            else:
                self._client.update_run(run_id, status="RUNNING")
        except MlflowException as error:
            self._judge(error, experiment.name, [position], outcome)

    def _judge(
        self, error: MlflowException, experiment: str, positions: Sequence[int], outcome: Outcome
    ) -> None:
        if self._is_final(error, experiment):
            outcome.refuse(positions, error)
        else:
            outcome.postpone(positions, error)

    def _is_final(self, error: MlflowException, experiment: str) -> bool:
        """Return whether MLflow will never take what it just refused.

        Raises:
            _UnreachableError: Nothing gets through now, or the experiment was deleted meanwhile.
        """
        # It answers, or this raises. A run of a deleted experiment is refused as a bad record is.
        self._open_experiment(experiment)
        code = error.error_code
        if code == "BAD_REQUEST":  # A proxy may have said so, not MLflow.
            return isinstance(error, RestException) or not self._is_remote
        return code in ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST")


def _family(experiment: Experiment, run_key: str) -> tuple[str, str]:
    """Name the runs whose keys begin with the same part."""
    return experiment.experiment_id, run_key.partition("/")[0]


def _items(numbered: _Numbered, *, skip_start_tags: bool) -> list[tuple[int, _Item]]:
    """Return what fits in a batch call: tags by their last value, all else once."""
    items: dict[object, tuple[int, _Item]] = {}
    for position, record in numbered:
        match record:
            case RunStarted():
                found = _param_items(record.params)
                found += [] if skip_start_tags else _tag_items(record.tags)
            case TagsSet():
                found = _tag_items(record.tags)
            case ParamsLogged():
                found = _param_items(record.params)
            case MetricsLogged():
                found = [
                    Metric(name, value, record.at_ms, record.step)
                    for name, value in record.values.items()
                ]
            case _:
                continue
        for item in found:
            items[_identity(item)] = (position, item)
    return list(items.values())


def _param_items(params: Mapping[str, ParamValue]) -> list[_Item]:
    texts, cuts = cut_params(params)
    return [*(Param(name, text) for name, text in texts.items()), *_tag_items(cuts)]


def _tag_items(tags: Mapping[str, str]) -> list[_Item]:
    return [RunTag(name, text) for name, text in cut_tags(tags).items()]


def _identity(item: _Item) -> object:
    match item:
        case Metric():
            return ("metric", item.key, item.step, item.timestamp, item.value)
        case Param():
            return ("param", item.key, item.value)
        case RunTag():
            return ("tag", item.key)


def _dataset_input(record: DatasetLogged) -> DatasetInput:
    is_url = record.source.startswith(("http://", "https://"))
    source = {"url": record.source} if is_url else {"uri": record.source}
    return DatasetInput(
        Dataset(record.name, record.digest, "http" if is_url else "local", json.dumps(source)),
        [InputTag("mlflow.data.context", record.context)],
    )
