"""Writes study events into the tables of Optuna and our own, inside one open transaction."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from hpo.domain import event as ev
from hpo.domain.attempt import Environment
from hpo.domain.search_space import Value
from hpo.domain.trial import PlannedTrial, TrialState
from hpo.storage import hpo_schema, optuna_schema

INSERT: Mapping[str, Callable[[sa.Table], sqlite.Insert | postgresql.Insert]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}
"""An insert that can leave a row that is there as it is; SQL has no common form of it."""


class EventWriter:
    """Writes the events of one study over one connection."""

    def __init__(
        self,
        connection: sa.Connection,
        study_id: int,
        distributions: Mapping[str, str],
        metric: str,
    ) -> None:
        self._connection = connection
        self._study_id = study_id
        self._distributions = distributions
        self._metric = metric

    def write(self, event: ev.StudyEvent) -> bool:
        """Write one event; return False when it came late and changed nothing."""
        match event:
            case ev.TrialsPlanned():
                self._plan(event.trials)
            case ev.AttemptStarted():
                self._start(event)
            case ev.Noted():
                self._note(event)
            case ev.StudyStateChanged():
                self._change_study(event)
            case ev.Progressed():
                pass
            case (
                ev.Measured()
                | ev.CheckpointPublished()
                | ev.AttemptInterrupted()
                | ev.TrialEnded()
            ):
                trial_id, token = self._find(event.number)
                if token != event.token:
                    return False
                self._write_of_attempt(trial_id, event)
        return True

    def _write_of_attempt(
        self,
        trial_id: int,
        event: ev.Measured | ev.CheckpointPublished | ev.AttemptInterrupted | ev.TrialEnded,
    ) -> None:
        match event:
            case ev.Measured():
                self._measure(trial_id, event)
            case ev.CheckpointPublished():
                self._publish(trial_id, event)
            case ev.AttemptInterrupted():
                self._end_attempt(event.token, event.reason, event.at)
                self._set_trial(trial_id, token=None)
                self._set_optuna_trial(trial_id, state="WAITING")
            case ev.TrialEnded():
                self._end_trial(trial_id, event)

    def _find(self, number: int) -> tuple[int, str | None]:
        table = hpo_schema.trials
        row = self._connection.execute(
            sa.select(table.c.trial_id, table.c.token).where(
                table.c.study_id == self._study_id, table.c.number == number
            )
        ).one()
        return row.trial_id, row.token

    def _plan(self, trials: tuple[PlannedTrial, ...]) -> None:
        table = optuna_schema.trials
        count = self._connection.execute(
            sa.select(sa.func.count()).where(table.c.study_id == self._study_id)
        ).scalar_one()
        if [trial.number for trial in trials] != list(range(count, count + len(trials))):
            raise ValueError(f"planned trials must be numbered from {count} without gaps")
        for trial in trials:
            inserted = self._connection.execute(
                table.insert().values(
                    number=trial.number, study_id=self._study_id, state="WAITING"
                )
            )
            self._insert_planned(inserted_id(inserted), trial)

    def _insert_planned(self, trial_id: int, trial: PlannedTrial) -> None:
        execute = self._connection.execute
        execute(
            hpo_schema.trials.insert().values(
                trial_id=trial_id,
                study_id=self._study_id,
                number=trial.number,
                params_json=json.dumps(dict(trial.params)),
                config_json=json.dumps(dict(trial.config)),
                config_id=trial.config_id,
                replicate=trial.replicate,
                role=trial.role.value,
                axis=trial.axis,
            )
        )
        params = [
            {
                "trial_id": trial_id,
                "param_name": name,
                "param_value": _internal_value(self._distributions[name], value),
                "distribution_json": self._distributions[name],
            }
            for name, value in trial.params.items()
        ]
        if params:
            execute(optuna_schema.trial_params.insert(), params)
        attributes = {
            "hpo:config_id": trial.config_id,
            "hpo:replicate": trial.replicate,
            "hpo:role": trial.role.value,
            "hpo:axis": trial.axis,
        }
        for key, value in attributes.items():
            self._set_attribute(trial_id, key, value)

    def _set_attribute(self, trial_id: int, key: str, value: object) -> None:
        """Show a value to stock Optuna viewers. Written once for each key, never read by us."""
        self._connection.execute(
            optuna_schema.trial_user_attributes.insert().values(
                trial_id=trial_id, key=key, value_json=json.dumps(value)
            )
        )

    def _start(self, event: ev.AttemptStarted) -> None:
        trial_id, _ = self._find(event.number)
        environment_id = self._store_environment(event.environment)
        self._connection.execute(
            hpo_schema.attempts.insert().values(
                token=event.token,
                trial_id=trial_id,
                attempt=event.attempt,
                device=event.device,
                num_threads=event.num_threads,
                environment_id=environment_id,
                started_at=event.at,
            )
        )
        self._set_trial(trial_id, token=event.token, num_attempts=event.attempt)
        values: dict[str, Any] = {"state": "RUNNING"}
        if event.attempt == 1:
            values["datetime_start"] = _naive(event.at)
        self._set_optuna_trial(trial_id, **values)

    def _store_environment(self, environment: Environment) -> str:
        document = json.dumps(dataclasses.asdict(environment), sort_keys=True)
        environment_id = hashlib.sha256(document.encode()).hexdigest()
        insert = INSERT[self._connection.dialect.name](hpo_schema.environments)
        self._connection.execute(
            insert.values(
                environment_id=environment_id, document=document
            ).on_conflict_do_nothing()  # every attempt on this machine shares it
        )
        return environment_id

    def _measure(self, trial_id: int, event: ev.Measured) -> None:
        measurement = event.measurement
        self._connection.execute(
            hpo_schema.measurements.insert().values(
                trial_id=trial_id,
                epoch=measurement.epoch,
                examples_seen=measurement.examples_seen,
                metrics_json=json.dumps(dict(measurement.metrics), allow_nan=False),
                action=event.decision.action.value,
                reason=event.decision.reason,
                at=event.at,
            )
        )
        value = measurement.metrics[self._metric]
        self._connection.execute(
            optuna_schema.trial_intermediate_values.insert().values(
                trial_id=trial_id,
                step=measurement.epoch,
                intermediate_value=value,
                intermediate_value_type=optuna_schema.value_type(value),
            )
        )

    def _publish(self, trial_id: int, event: ev.CheckpointPublished) -> None:
        table = hpo_schema.checkpoints
        self._connection.execute(
            table.delete().where(table.c.trial_id == trial_id, table.c.kind == event.kind)
        )
        self._connection.execute(
            table.insert().values(
                trial_id=trial_id,
                kind=event.kind,
                at=event.at,
                **dataclasses.asdict(event.checkpoint),
            )
        )

    def _end_trial(self, trial_id: int, event: ev.TrialEnded) -> None:
        if event.value is not None:
            if event.state is TrialState.FAIL:
                raise ValueError(
                    "a failed trial has no value: Optuna refuses to copy one that has"
                )
            self._connection.execute(
                optuna_schema.trial_values.insert().values(
                    trial_id=trial_id,
                    objective=0,
                    value=event.value,
                    value_type=optuna_schema.value_type(event.value),
                )
            )
        self._set_optuna_trial(
            trial_id, state=event.state.value, datetime_complete=_naive(event.at)
        )
        self._set_trial(
            trial_id,
            token=None,
            reason=event.reason,
            failure=event.failure.value if event.failure else None,
            best_epoch=event.best_epoch,
            weights_sha256=event.weights_sha256,
        )
        self._end_attempt(event.token, event.reason or event.state.value.lower(), event.at)
        if event.reason:
            self._set_attribute(trial_id, "hpo:reason", event.reason)

    def _end_attempt(self, token: str, outcome: str, at: str) -> None:
        table = hpo_schema.attempts
        self._connection.execute(
            table.update().where(table.c.token == token).values(ended_at=at, outcome=outcome)
        )

    def _note(self, event: ev.Noted) -> None:
        trial_id, _ = self._find(event.number)
        self._connection.execute(
            hpo_schema.notes.insert().values(trial_id=trial_id, note=event.note, at=event.at)
        )

    def _change_study(self, event: ev.StudyStateChanged) -> None:
        table = hpo_schema.studies
        is_running = event.state == "running"
        self._connection.execute(
            table.update()
            .where(table.c.study_id == self._study_id)
            .values(
                state=event.state.value,
                reason=event.reason,
                running_s=event.running_s,
                ended_at=None if is_running else event.at,
                stop_requested_at=None,
            )
        )

    def _set_trial(self, trial_id: int, **values: object) -> None:
        table = hpo_schema.trials
        self._connection.execute(
            table.update().where(table.c.trial_id == trial_id).values(**values)
        )

    def _set_optuna_trial(self, trial_id: int, **values: object) -> None:
        table = optuna_schema.trials
        self._connection.execute(
            table.update().where(table.c.trial_id == trial_id).values(**values)
        )


def inserted_id(result: sa.CursorResult[Any]) -> int:
    """Return the primary key that the database gave an inserted row."""
    key = result.inserted_primary_key
    if key is None:
        raise RuntimeError("the database returned no key for an inserted row")
    return int(key[0])


def _naive(at: str) -> datetime:
    """Return the time as Optuna stores it: UTC without a zone."""
    return datetime.fromisoformat(at).replace(tzinfo=None)


def _internal_value(distribution_json: str, value: Value) -> float:
    """Return the number by which Optuna stores a value: itself, or its place among choices."""
    distribution = json.loads(distribution_json)
    if distribution["name"] == "CategoricalDistribution":
        choices = distribution["attributes"]["choices"]
        for index, choice in enumerate(choices):
            if choice == value and type(choice) is type(value):
                return float(index)
        raise ValueError(f"{value!r} is not among {choices}")
    return float(value)
