"""The ledger over SQLite or PostgreSQL: Optuna's own schema with our tables beside it."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from hpo.domain import event as ev
from hpo.domain.attempt import Attempt, Environment
from hpo.domain.study import StudyState
from hpo.domain.trial import (
    CheckpointRef,
    FailureKind,
    Measurement,
    PlannedTrial,
    Role,
    Trial,
    TrialState,
)
from hpo.errors import UsageError
from hpo.storage import hpo_schema, optuna_schema
from hpo.storage.database import open_engine, write_transaction
from hpo.storage.event_writer import EventWriter, inserted_id
from hpo.storage.ledger import NewStudy, StudyRow

DURABLE_EVENTS = (
    ev.TrialsPlanned,
    ev.TrialEnded,
    ev.AttemptInterrupted,
    ev.StudyStateChanged,
)
"""Events that must survive a power cut; the others survive the death of any process."""


class SqlLedger:
    """Keeps the promises of `Ledger` in one SQL database."""

    def __init__(self, url: str) -> None:
        """Open the database at `url`, creating it when it is not there.

        Args:
            url: an SQLAlchemy URL; `sqlite:///runs/hpo.db` or `postgresql+psycopg://..`.

        Raises:
            UsageError: it cannot be opened, or has another version.
        """
        self._engine = open_engine(url)
        self._writer_facts: dict[str, tuple[int, dict[str, str], str]] = {}

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def create_study(self, study: NewStudy) -> None:
        """Add a study without trials.

        Raises:
            UsageError: the name is taken.
        """
        try:
            self._insert_study(study)
        except sa.exc.IntegrityError as error:  # two processes, or a study that Optuna made
            raise UsageError(
                f"a study named {study.name} exists; write another study: name"
            ) from error

    def _insert_study(self, study: NewStudy) -> None:
        table = optuna_schema.studies
        with write_transaction(self._engine, is_durable=True) as connection:
            inserted = connection.execute(table.insert().values(study_name=study.name))
            study_id = inserted_id(inserted)
            for index, direction in enumerate(study.directions):
                connection.execute(
                    optuna_schema.study_directions.insert().values(
                        study_id=study_id, objective=index, direction=direction.value.upper()
                    )
                )
            connection.execute(
                hpo_schema.studies.insert().values(
                    study_id=study_id,
                    uid=study.uid,
                    name=study.name,
                    document=study.document,
                    source=study.source,
                    distributions_json=json.dumps(dict(study.distributions)),
                    state=StudyState.STOPPED.value,
                    reason="not started",
                    created_at=study.created_at,
                    running_s=0.0,
                )
            )

    def apply(self, study_uid: str, events: Sequence[ev.StudyEvent]) -> int:
        """Write events of one study in one transaction; return how many were late."""
        if not events:
            return 0
        is_durable = any(isinstance(event, DURABLE_EVENTS) for event in events)
        with write_transaction(self._engine, is_durable=is_durable) as connection:
            writer = EventWriter(connection, *self._facts(connection, study_uid))
            return sum(not writer.write(event) for event in events)

    def _facts(self, connection: sa.Connection, uid: str) -> tuple[int, dict[str, str], str]:
        """Return what writing needs of a study and never changes: id, distributions, metric."""
        if uid not in self._writer_facts:
            table = hpo_schema.studies
            row = connection.execute(
                sa.select(table.c.study_id, table.c.distributions_json, table.c.document).where(
                    table.c.uid == uid
                )
            ).one()
            objective = json.loads(row.document)["objective"]
            self._writer_facts[uid] = (
                row.study_id,
                json.loads(row.distributions_json),
                objective["metric"],
            )
        return self._writer_facts[uid]

    def studies(self) -> tuple[StudyRow, ...]:
        """Return every study, the oldest first."""
        table, trials = hpo_schema.studies, optuna_schema.trials
        with self._engine.begin() as connection:
            rows = connection.execute(sa.select(table).order_by(table.c.study_id)).all()
            counts: dict[int, dict[TrialState, int]] = defaultdict(dict)
            query = sa.select(trials.c.study_id, trials.c.state, sa.func.count()).group_by(
                trials.c.study_id, trials.c.state
            )
            for study_id, state, count in connection.execute(query):
                counts[study_id][TrialState(state)] = count
        return tuple(
            StudyRow(
                uid=row.uid,
                name=row.name,
                document=row.document,
                source=row.source,
                state=StudyState(row.state),
                reason=row.reason,
                created_at=row.created_at,
                ended_at=row.ended_at,
                running_s=row.running_s,
                is_stop_requested=row.stop_requested_at is not None,
                counts=counts[row.study_id],
            )
            for row in rows
        )

    def trials(self, study_uid: str) -> tuple[Trial, ...]:
        """Return every trial of a study by number."""
        ours, optunas, values = hpo_schema.trials, optuna_schema.trials, optuna_schema.trial_values
        with self._engine.begin() as connection:
            study_id = self._study_id(connection, study_uid)
            rows = connection.execute(
                sa.select(
                    ours,
                    optunas.c.state,
                    optunas.c.datetime_start,
                    optunas.c.datetime_complete,
                    values.c.value,
                )
                .join(optunas, optunas.c.trial_id == ours.c.trial_id)
                .outerjoin(values, values.c.trial_id == ours.c.trial_id)
                .where(ours.c.study_id == study_id)
                .order_by(ours.c.number)
            ).all()
            measurements = self._measurements(connection, study_id)
            checkpoints = self._checkpoints(connection, study_id)
        return tuple(
            _trial(row, measurements[row.trial_id], checkpoints[row.trial_id]) for row in rows
        )

    def _measurements(
        self, connection: sa.Connection, study_id: int
    ) -> dict[int, list[Measurement]]:
        table = hpo_schema.measurements
        found: dict[int, list[Measurement]] = defaultdict(list)
        query = (
            sa.select(table.c.trial_id, table.c.epoch, table.c.examples_seen, table.c.metrics_json)
            .where(table.c.trial_id.in_(_trial_ids(study_id)))
            .order_by(table.c.trial_id, table.c.epoch)
        )
        for row in connection.execute(query):
            found[row.trial_id].append(
                Measurement(
                    epoch=row.epoch,
                    examples_seen=row.examples_seen,
                    metrics=json.loads(row.metrics_json),
                )
            )
        return found

    def _checkpoints(
        self, connection: sa.Connection, study_id: int
    ) -> dict[int, dict[str, CheckpointRef]]:
        table = hpo_schema.checkpoints
        found: dict[int, dict[str, CheckpointRef]] = defaultdict(dict)
        query = sa.select(table).where(table.c.trial_id.in_(_trial_ids(study_id)))
        for row in connection.execute(query):
            found[row.trial_id][row.kind] = CheckpointRef(
                uri=row.uri, sha256=row.sha256, epoch=row.epoch, num_bytes=row.num_bytes
            )
        return found

    def checkpoint(self, study_uid: str, number: int, kind: str) -> CheckpointRef | None:
        """Return a trial's newest checkpoint of a kind: `last`, `best`, or `@7` of epoch 7."""
        table, trials = hpo_schema.checkpoints, hpo_schema.trials
        with self._engine.begin() as connection:
            row = connection.execute(
                sa.select(table)
                .join(trials, trials.c.trial_id == table.c.trial_id)
                .where(
                    trials.c.study_id == self._study_id(connection, study_uid),
                    trials.c.number == number,
                    table.c.kind == kind,
                )
            ).one_or_none()
        if row is None:
            return None
        return CheckpointRef(
            uri=row.uri, sha256=row.sha256, epoch=row.epoch, num_bytes=row.num_bytes
        )

    def attempts(self, study_uid: str, number: int) -> tuple[Attempt, ...]:
        """Return every attempt at a trial, in order."""
        table, trials, environments = (
            hpo_schema.attempts,
            hpo_schema.trials,
            hpo_schema.environments,
        )
        with self._engine.begin() as connection:
            rows = connection.execute(
                sa.select(table, environments.c.document)
                .join(trials, trials.c.trial_id == table.c.trial_id)
                .join(environments, environments.c.environment_id == table.c.environment_id)
                .where(
                    trials.c.study_id == self._study_id(connection, study_uid),
                    trials.c.number == number,
                )
                .order_by(table.c.attempt)
            ).all()
        return tuple(
            Attempt(
                number=row.attempt,
                token=row.token,
                device=row.device,
                num_threads=row.num_threads,
                environment=Environment(**json.loads(row.document)),
                started_at=row.started_at,
                ended_at=row.ended_at,
                outcome=row.outcome,
            )
            for row in rows
        )

    def notes(self, study_uid: str) -> Mapping[int, tuple[str, ...]]:
        """Return the remarks on each trial that has any, by trial number."""
        table, trials = hpo_schema.notes, hpo_schema.trials
        found: dict[int, tuple[str, ...]] = {}
        with self._engine.begin() as connection:
            query = (
                sa.select(trials.c.number, table.c.note)
                .join(trials, trials.c.trial_id == table.c.trial_id)
                .where(trials.c.study_id == self._study_id(connection, study_uid))
                .order_by(table.c.note_id)
            )
            for number, note in connection.execute(query):
                found[number] = (*found.get(number, ()), note)
        return found

    def extend_study(self, study_uid: str, document: str, source: str) -> None:
        """Replace a study's sweep by a compatible, larger one."""
        self._update_study(study_uid, document=document, source=source)

    def request_stop(self, study_uid: str, at: str | None) -> None:
        """Ask the study's owner to stop after the running epochs; None takes it back."""
        self._update_study(study_uid, stop_requested_at=at)

    def is_stop_requested(self, study_uid: str) -> bool:
        """Tell whether a stop was asked for."""
        table = hpo_schema.studies
        query = sa.select(table.c.stop_requested_at).where(table.c.uid == study_uid)
        with self._engine.begin() as connection:
            return connection.execute(query).scalar() is not None

    def test_result(self, study_uid: str, config_id: str) -> str | None:
        """Return the stored test-split result of a configuration as JSON, or None."""
        table = hpo_schema.test_results
        with self._engine.begin() as connection:
            document: str | None = connection.execute(
                sa.select(table.c.document).where(
                    table.c.study_id == self._study_id(connection, study_uid),
                    table.c.config_id == config_id,
                )
            ).scalar()
        return document

    def store_test_result(self, study_uid: str, config_id: str, document: str, at: str) -> None:
        """Store a configuration's test-split result, once."""
        with write_transaction(self._engine, is_durable=True) as connection:
            connection.execute(
                hpo_schema.test_results.insert().values(
                    study_id=self._study_id(connection, study_uid),
                    config_id=config_id,
                    document=document,
                    at=at,
                )
            )

    def delete_study(self, study_uid: str) -> None:
        """Remove a study and everything of it from the database."""
        with write_transaction(self._engine, is_durable=True) as connection:
            study_id = self._study_id(connection, study_uid)
            trial_ids = (
                connection.execute(
                    sa.select(optuna_schema.trials.c.trial_id).where(
                        optuna_schema.trials.c.study_id == study_id
                    )
                )
                .scalars()
                .all()
            )
            for table in (*hpo_schema.TRIAL_TABLES, *optuna_schema.TRIAL_TABLES):
                connection.execute(table.delete().where(table.c.trial_id.in_(trial_ids)))
            environments, attempts = hpo_schema.environments, hpo_schema.attempts
            connection.execute(  # those that no other study's attempts ran under
                environments.delete().where(
                    environments.c.environment_id.not_in(sa.select(attempts.c.environment_id))
                )
            )
            for table in (
                hpo_schema.test_results,
                hpo_schema.studies,
                optuna_schema.trials,
                *optuna_schema.STUDY_TABLES,
                optuna_schema.studies,
            ):
                connection.execute(table.delete().where(table.c.study_id == study_id))
        self._writer_facts.pop(study_uid, None)

    def _update_study(self, study_uid: str, **values: object) -> None:
        table = hpo_schema.studies
        with write_transaction(self._engine, is_durable=True) as connection:
            connection.execute(table.update().where(table.c.uid == study_uid).values(**values))

    def _study_id(self, connection: sa.Connection, uid: str) -> int:
        table = hpo_schema.studies
        study_id: int = connection.execute(
            sa.select(table.c.study_id).where(table.c.uid == uid)
        ).scalar_one()
        return study_id


def _trial_ids(study_id: int) -> sa.Select[tuple[int]]:
    table = hpo_schema.trials
    return sa.select(table.c.trial_id).where(table.c.study_id == study_id)


def _trial(
    row: Any, measurements: list[Measurement], checkpoints: Mapping[str, CheckpointRef]
) -> Trial:
    return Trial(
        plan=PlannedTrial(
            number=row.number,
            params=json.loads(row.params_json),
            config=json.loads(row.config_json),
            replicate=row.replicate,
            role=Role(row.role),
            axis=row.axis,
        ),
        state=TrialState(row.state),
        reason=row.reason,
        failure=FailureKind(row.failure) if row.failure else None,
        measurements=tuple(measurements),
        value=row.value,
        best_epoch=row.best_epoch,
        last=checkpoints.get("last"),
        best=checkpoints.get("best"),
        weights_sha256=row.weights_sha256,
        num_attempts=row.num_attempts,
        token=row.token,
        started_at=row.datetime_start.isoformat() + "+00:00" if row.datetime_start else None,
        ended_at=row.datetime_complete.isoformat() + "+00:00" if row.datetime_complete else None,
    )
