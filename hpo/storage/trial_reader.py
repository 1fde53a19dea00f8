"""Reads the trials of a study back from Optuna's rows and ours."""

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from hpo.domain.trial import (
    CheckpointRef,
    FailureKind,
    Measurement,
    PlannedTrial,
    Role,
    Trial,
    TrialState,
)
from hpo.storage import hpo_schema, optuna_schema


def read_trials(connection: sa.Connection, study_id: int) -> tuple[Trial, ...]:
    """Return every trial of a study by number."""
    ours, optunas, values = hpo_schema.trials, optuna_schema.trials, optuna_schema.trial_values
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
    measurements = _measurements(connection, study_id)
    checkpoints = _checkpoints(connection, study_id)
    return tuple(
        _trial(row, measurements[row.trial_id], checkpoints[row.trial_id]) for row in rows
    )


def _measurements(connection: sa.Connection, study_id: int) -> dict[int, list[Measurement]]:
    table = hpo_schema.measurements
    query = (
        sa.select(table.c.trial_id, table.c.epoch, table.c.examples_seen, table.c.metrics_json)
        .where(table.c.trial_id.in_(_trial_ids(study_id)))
        .order_by(table.c.trial_id, table.c.epoch)
    )
    rows = connection.execute(query).all()
    # One document rather than one for each epoch: reading is half as long.
    metrics = json.loads(f"[{','.join(row[3] for row in rows)}]")
    found: dict[int, list[Measurement]] = defaultdict(list)
    for (trial_id, epoch, examples_seen, _), values in zip(rows, metrics, strict=True):
        found[trial_id].append(
            Measurement(epoch=epoch, examples_seen=examples_seen, metrics=values)
        )
    return found


def _checkpoints(connection: sa.Connection, study_id: int) -> dict[int, dict[str, CheckpointRef]]:
    table = hpo_schema.checkpoints
    found: dict[int, dict[str, CheckpointRef]] = defaultdict(dict)
    query = sa.select(table).where(table.c.trial_id.in_(_trial_ids(study_id)))
    for row in connection.execute(query):
        found[row.trial_id][row.kind] = CheckpointRef(
            uri=row.uri, sha256=row.sha256, epoch=row.epoch, num_bytes=row.num_bytes
        )
    return found


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
