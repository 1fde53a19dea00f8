"""Turns study events into rows of Optuna's tables and our own.

Nothing is read before it is written: each statement selects the trial that it writes to by study,
number and, where a revoked attempt might speak, token. So an event that comes late changes nothing
in the same statement that would have written it, and all of an apply travels to the database
together.
"""

import dataclasses
import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hpo.domain import event as ev
from hpo.domain.search_space import Value
from hpo.domain.trial import PlannedTrial, TrialState
from hpo.storage import hpo_schema, optuna_rows, optuna_schema
from hpo.storage.statement import INSERT, Source, Statement, Write, change, put
from hpo.storage.writer import Transaction


def _names(table: sa.Table, *others: str) -> list[str]:
    return [column.name for column in table.columns if column.name not in others]


_TRIALS = hpo_schema.trials
_NUMBERED: Source = sa.select(_TRIALS.c.trial_id).where(
    _TRIALS.c.study_id == sa.bindparam("of_study", type_=sa.Integer),
    _TRIALS.c.number == sa.bindparam("of_number", type_=sa.Integer),
)
_FENCED = _NUMBERED.where(_TRIALS.c.token == sa.bindparam("of_token", type_=sa.String))
_ATTEMPT_COLUMNS = ("token", "attempt", "device", "num_threads", "environment_id", "started_at")

_NEW_TRIAL = optuna_rows.new_trial(is_planned=True)
_PLAN = put(
    _TRIALS,
    optuna_rows.UPDATABLE_TRIAL,
    _names(_TRIALS, "trial_id", "token", "failure", "best_epoch", "weights_sha256"),
)
_PLANNED_PARAM = optuna_rows.put_param(optuna_rows.UPDATABLE_TRIAL)
_PLANNED_ATTRIBUTE = optuna_rows.put_attribute(
    optuna_schema.trial_user_attributes, optuna_rows.UPDATABLE_TRIAL
)

_START = put(hpo_schema.attempts, _NUMBERED, _ATTEMPT_COLUMNS)
_RUN = change(_TRIALS, _NUMBERED, ("token", "num_attempts"))
_RUN_FIRST = optuna_rows.change_trial(_NUMBERED, "state", "datetime_start")
_RUN_AGAIN = optuna_rows.change_trial(_NUMBERED, "state")

_MEASURE = put(hpo_schema.measurements, _FENCED, _names(hpo_schema.measurements, "trial_id"))
_REPORT = optuna_rows.put_intermediate_value(_FENCED)
_PUBLISH = put(
    hpo_schema.checkpoints,
    _FENCED,
    _names(hpo_schema.checkpoints, "trial_id"),
    replaces=["kind"],
)
_WAIT = optuna_rows.change_trial(_FENCED, "state")
_VALUE = optuna_rows.put_value(_FENCED)
_END = optuna_rows.change_trial(_FENCED, "state", "datetime_complete")
_REASON = optuna_rows.put_attribute(optuna_schema.trial_user_attributes, _FENCED)
_RELEASE = change(_TRIALS, _FENCED, ("token",))
_CONCLUDE = change(
    _TRIALS, _FENCED, ("token", "reason", "failure", "best_epoch", "weights_sha256")
)
_NOTE = put(hpo_schema.notes, _NUMBERED, ("note", "at"))


def _end_attempt(_: str) -> sa.ClauseElement:
    table = hpo_schema.attempts
    return (
        table.update()
        .where(
            table.c.token == sa.bindparam("of_token", type_=sa.String),
            table.c.trial_id == _FENCED.scalar_subquery(),
        )
        .values(
            ended_at=sa.bindparam("new_ended_at", type_=sa.String, required=True),
            outcome=sa.bindparam("new_outcome", type_=sa.Text, required=True),
        )
    )


def _bound(*names: str) -> dict[str, Any]:
    return {name: sa.bindparam(name, required=True) for name in names}


def _keep_environment(dialect: str) -> sa.ClauseElement:
    table = hpo_schema.environments
    return (
        INSERT[dialect](table)
        .values(_bound("environment_id", "document"))
        .on_conflict_do_nothing()
    )


_STUDY_COLUMNS = ("state", "reason", "running_s", "ended_at")


def _change_study(_: str) -> sa.ClauseElement:
    table = hpo_schema.studies
    values = {
        name: sa.bindparam(f"new_{name}", type_=table.c[name].type, required=True)
        for name in _STUDY_COLUMNS
    }
    return table.update().where(table.c.study_id == sa.bindparam("of_study")).values(values)


_END_ATTEMPT = Statement(_end_attempt)
_KEEP_ENVIRONMENT = Statement(_keep_environment)
_CHANGE_STUDY = Statement(_change_study)


def _mark_applied(dialect: str) -> sa.ClauseElement:
    table = hpo_schema.applies
    insert = INSERT[dialect](table).values(_bound("study_id", "apply_id"))
    return insert.on_conflict_do_update(
        index_elements=["study_id"],
        set_={"apply_id": insert.excluded.apply_id},
        where=table.c.apply_id != insert.excluded.apply_id,
    )


_MARK_APPLIED = Statement(_mark_applied)


def applied_mark(study_id: int) -> Write:
    """Return what marks an apply as done; it touches no row when that apply has been committed.

    It also locks the study's mark, so a repeated apply waits for the end of its earlier try.
    """
    return Write(_MARK_APPLIED, {"study_id": study_id, "apply_id": secrets.token_hex(16)})


class EventWriter:
    """Writes the events of one study in one transaction."""

    def __init__(
        self,
        transaction: Transaction,
        study_id: int,
        distributions: Mapping[str, str],
        metric: str,
    ) -> None:
        self._transaction = transaction
        self._study_id = study_id
        self._distributions = distributions
        self._metric = metric

    def write(self, events: Sequence[ev.StudyEvent], opening: Sequence[Write] = ()) -> int:
        """Write events in order; return how many came late and changed nothing.

        Args:
            events: of this study.
            opening: what to write before them.

        Raises:
            ValueError: an event does not fit the study: a trial that is not there, a plan with a
                gap, a value of a failed trial. The transaction must be rolled back.
        """
        num_late, pending = 0, list(opening)
        for event in events:
            if isinstance(event, ev.TrialsPlanned):
                num_late += self._send(pending)
                pending = self._plan(event.trials)
            else:
                pending += self._writes(event)
        return num_late + self._send(pending)

    def _send(self, writes: Sequence[Write]) -> int:
        if not writes:
            return 0
        results = self._transaction.run(writes)
        num_late = 0
        for write, result in zip(writes, results, strict=True):
            if result.count == 0:
                if write.refusal is not None:
                    raise ValueError(write.refusal)
                num_late += write.is_fence
        return num_late

    # --- planning

    def _plan(self, trials: Sequence[PlannedTrial]) -> list[Write]:
        """Number new trials; return what is to be written about them."""
        study = {"of_study": self._study_id}
        row = {"state": "WAITING", "datetime_start": None, "datetime_complete": None}
        creations = [
            Write(_NEW_TRIAL, {**study, **row, "number": trial.number}) for trial in trials
        ]
        _, *created = self._transaction.run([Write(optuna_rows.LOCK_STUDY, study), *creations])
        num_created = sum(result.count for result in created)
        if num_created < len(trials):
            [[(following,)]] = [
                result.rows
                for result in self._transaction.run([Write(optuna_rows.NEXT_NUMBER, study)])
            ]
            first = following - num_created
            raise ValueError(f"planned trials must be numbered from {first} without gaps")
        return [
            write
            for trial, result in zip(trials, created, strict=True)
            for write in self._writes_of_plan(result.rows[0][0], trial)
        ]

    def _writes_of_plan(self, trial_id: int, trial: PlannedTrial) -> Iterator[Write]:
        of = {"of_trial": trial_id}
        yield Write(
            _PLAN,
            {
                **of,
                "study_id": self._study_id,
                "number": trial.number,
                "params_json": json.dumps(dict(trial.params)),
                "config_json": json.dumps(dict(trial.config)),
                "config_id": trial.config_id,
                "replicate": trial.replicate,
                "role": trial.role.value,
                "axis": trial.axis,
                "num_attempts": 0,
                "reason": "",
            },
        )
        for name, value in trial.params.items():
            distribution = self._distributions[name]
            yield Write(
                _PLANNED_PARAM,
                {
                    **of,
                    "param_name": name,
                    "param_value": _internal_value(distribution, value),
                    "distribution_json": distribution,
                },
            )
        attributes = {  # shown to stock Optuna viewers, never read by us
            "hpo:config_id": trial.config_id,
            "hpo:replicate": trial.replicate,
            "hpo:role": trial.role.value,
            "hpo:axis": trial.axis,
        }
        for key, shown in attributes.items():
            row = optuna_rows.attribute_row(key, shown)
            yield Write(_PLANNED_ATTRIBUTE, {**of, **row})

    # --- everything else

    def _writes(self, event: ev.StudyEvent) -> Iterator[Write]:
        match event:
            case ev.AttemptStarted():
                yield from self._start(event)
            case ev.Measured():
                yield from self._measure(event)
            case ev.CheckpointPublished():
                checkpoint = dataclasses.asdict(event.checkpoint)
                row = {"kind": event.kind, "at": event.at, **checkpoint}
                yield Write(_PUBLISH, {**self._fence(event), **row}, is_fence=True)
            case ev.AttemptInterrupted():
                of = self._fence(event)
                yield _attempt_ended(of, event.at, event.reason)
                yield Write(_WAIT, {**of, "new_state": "WAITING"})
                yield Write(_RELEASE, {**of, "new_token": None})
            case ev.TrialEnded():
                yield from self._end(event)
            case ev.Noted():
                row = {"note": event.note, "at": event.at}
                yield Write(_NOTE, {**self._of(event), **row}, refusal=_missing(event))
            case ev.StudyStateChanged():
                yield self._change_study(event)
            case ev.Progressed() | ev.TrialsPlanned():
                pass

    def _of(self, event: ev.AttemptStarted | ev.Noted) -> dict[str, Any]:
        return {"of_study": self._study_id, "of_number": event.number}

    def _fence(
        self, event: ev.Measured | ev.CheckpointPublished | ev.AttemptInterrupted | ev.TrialEnded
    ) -> dict[str, Any]:
        number, token = event.number, event.token
        return {"of_study": self._study_id, "of_number": number, "of_token": token}

    def _start(self, event: ev.AttemptStarted) -> Iterator[Write]:
        document = json.dumps(dataclasses.asdict(event.environment), sort_keys=True)
        environment_id = hashlib.sha256(document.encode()).hexdigest()
        yield Write(  # every attempt on this machine shares it
            _KEEP_ENVIRONMENT, {"environment_id": environment_id, "document": document}
        )
        of = self._of(event)
        row = {
            "token": event.token,
            "attempt": event.attempt,
            "device": event.device,
            "num_threads": event.num_threads,
            "environment_id": environment_id,
            "started_at": event.at,
        }
        yield Write(_START, {**of, **row}, refusal=_missing(event))
        yield Write(_RUN, {**of, "new_token": event.token, "new_num_attempts": event.attempt})
        running = {**of, "new_state": "RUNNING"}
        if event.attempt == 1:
            yield Write(_RUN_FIRST, {**running, "new_datetime_start": _naive(event.at)})
        else:
            yield Write(_RUN_AGAIN, running)

    def _measure(self, event: ev.Measured) -> Iterator[Write]:
        measurement, of = event.measurement, self._fence(event)
        row: dict[str, Any] = {
            "epoch": measurement.epoch,
            "examples_seen": measurement.examples_seen,
            "metrics_json": json.dumps(dict(measurement.metrics), allow_nan=False),
            "action": event.decision.action.value,
            "reason": event.decision.reason,
            "at": event.at,
        }
        yield Write(_MEASURE, {**of, **row}, is_fence=True)
        value = measurement.metrics[self._metric]
        row = optuna_rows.intermediate_value_row(measurement.epoch, value)
        yield Write(_REPORT, {**of, **row})

    def _end(self, event: ev.TrialEnded) -> Iterator[Write]:
        of = self._fence(event)
        if event.value is not None:
            if event.state is TrialState.FAIL:
                raise ValueError(
                    "a failed trial has no value: Optuna refuses to copy one that has"
                )
            yield Write(_VALUE, {**of, **optuna_rows.value_row(0, event.value)})
        if event.reason:
            row = optuna_rows.attribute_row("hpo:reason", event.reason)
            yield Write(_REASON, {**of, **row})
        ended = {"new_state": event.state.value, "new_datetime_complete": _naive(event.at)}
        yield Write(_END, {**of, **ended})
        yield _attempt_ended(of, event.at, event.reason or event.state.value.lower())
        yield Write(
            _CONCLUDE,
            {
                **of,
                "new_token": None,  # so nothing after this line is heard of the attempt
                "new_reason": event.reason,
                "new_failure": event.failure.value if event.failure else None,
                "new_best_epoch": event.best_epoch,
                "new_weights_sha256": event.weights_sha256,
            },
        )

    def _change_study(self, event: ev.StudyStateChanged) -> Write:
        is_running = event.state == "running"
        return Write(
            _CHANGE_STUDY,
            {
                "of_study": self._study_id,
                "new_state": event.state.value,
                "new_reason": event.reason,
                "new_running_s": event.running_s,
                "new_ended_at": None if is_running else event.at,
            },
        )


def _attempt_ended(of: Mapping[str, Any], at: str, outcome: str) -> Write:
    return Write(_END_ATTEMPT, {**of, "new_ended_at": at, "new_outcome": outcome}, is_fence=True)


def _missing(event: ev.AttemptStarted | ev.Noted) -> str:
    return f"the study has no trial {event.number}"


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
