"""An Optuna storage of our own over Optuna's own schema.

Stock Optuna opens the same database before, during and after. This one writes each call in one
transaction of precompiled statements, those that the ledger writes with, and keeps the trials that
have ended in memory.
"""

import copy
import json
import threading
import uuid
from collections.abc import Container, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from optuna.distributions import (
    BaseDistribution,
    check_distribution_compatibility,
    distribution_to_json,
    json_to_distribution,
)
from optuna.exceptions import DuplicatedStudyError, StorageInternalError
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection, load_study
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState

from hpo.clock import SystemClock
from hpo.storage import optuna_rows, optuna_schema
from hpo.storage.database import open_engine, write_transaction
from hpo.storage.deletion import delete_study_rows
from hpo.storage.frozen_trials import FrozenTrials, attributes, stored_time
from hpo.storage.statement import INSERT, Statement, Write
from hpo.storage.writer import Transaction, Writer

_TRIAL = optuna_rows.UPDATABLE_TRIAL
_NEW_TRIAL = optuna_rows.new_trial(is_planned=False)
_PARAM = optuna_rows.put_param(_TRIAL)
_VALUE = optuna_rows.put_value(_TRIAL)
_INTERMEDIATE_VALUE = optuna_rows.put_intermediate_value(_TRIAL)
_USER_ATTRIBUTE = optuna_rows.put_attribute(optuna_schema.trial_user_attributes, _TRIAL)
_SYSTEM_ATTRIBUTE = optuna_rows.put_attribute(optuna_schema.trial_system_attributes, _TRIAL)
_STATE = optuna_rows.change_trial(_TRIAL, "state")
_END = optuna_rows.change_trial(_TRIAL, "state", "datetime_complete")
_BEGIN = optuna_rows.change_trial(
    _TRIAL.where(optuna_schema.trials.c.state == sa.literal_column("'WAITING'")),
    "state",
    "datetime_start",
)


class OptunaStorage(BaseStorage):
    """Keeps Optuna's promises for a storage; see `optuna.storages.BaseStorage`."""

    def __init__(self, url: str) -> None:
        """Open the database at `url`, creating it when it is not there."""
        self._url = url
        self._open()

    def _open(self) -> None:
        self._engine = open_engine(self._url)
        self._writer = Writer(self._engine)
        self._clock = SystemClock()
        self._trials = FrozenTrials()
        self._distributions: dict[tuple[int, str], BaseDistribution] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_url": self._url}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._url = state["_url"]
        self._open()

    def close(self) -> None:
        """Close every connection."""
        self._writer.close()
        self._engine.dispose()

    def remove_session(self) -> None:
        """Close this storage's own connection; the next write opens another."""
        self._writer.close()

    # --- studies

    def create_new_study(
        self, directions: Sequence[StudyDirection], study_name: str | None = None
    ) -> int:
        """Add a study; it is given a name when it has none."""
        name = study_name if study_name is not None else f"no-name-{uuid.uuid4()}"
        table = optuna_schema.studies
        try:
            with write_transaction(self._engine, is_durable=True) as connection:
                study_id: int = connection.execute(
                    table.insert().values(study_name=name).returning(table.c.study_id)
                ).scalar_one()
                connection.execute(
                    optuna_schema.study_directions.insert(),
                    [
                        {"study_id": study_id, "objective": index, "direction": direction.name}
                        for index, direction in enumerate(directions)
                    ],
                )
        except sa.exc.IntegrityError as error:
            raise DuplicatedStudyError(f"a study named {name} exists") from error
        return study_id

    def delete_study(self, study_id: int) -> None:
        """Remove a study and everything of it, our own rows included."""
        with write_transaction(self._engine, is_durable=True) as connection:
            self._name(connection, study_id)
            delete_study_rows(connection, study_id)
        with self._lock:
            self._distributions.clear()

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        """Set an attribute of a study."""
        self._set_study_attribute(optuna_schema.study_user_attributes, study_id, key, value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """Set one of Optuna's own attributes of a study."""
        self._set_study_attribute(optuna_schema.study_system_attributes, study_id, key, value)

    def _set_study_attribute(self, table: sa.Table, study_id: int, key: str, value: Any) -> None:
        insert = INSERT[self._engine.dialect.name](table).values(
            study_id=study_id, key=key, value_json=json.dumps(value)
        )
        with write_transaction(self._engine, is_durable=False) as connection:
            self._name(connection, study_id)
            connection.execute(
                insert.on_conflict_do_update(
                    index_elements=["study_id", "key"],
                    set_={"value_json": insert.excluded.value_json},
                )
            )

    def get_study_id_from_name(self, study_name: str) -> int:
        """Return the ID of a study."""
        table = optuna_schema.studies
        query = sa.select(table.c.study_id).where(table.c.study_name == study_name)
        with self._engine.begin() as connection:
            study_id: int | None = connection.execute(query).scalar()
        if study_id is None:
            raise KeyError(f"there is no study named {study_name}")
        return study_id

    def get_study_name_from_id(self, study_id: int) -> str:
        """Return the name of a study."""
        with self._engine.begin() as connection:
            return self._name(connection, study_id)

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """Return a direction for each objective."""
        table = optuna_schema.study_directions
        query = sa.select(table).where(table.c.study_id == study_id).order_by(table.c.objective)
        with self._engine.begin() as connection:
            self._name(connection, study_id)
            return [StudyDirection[row.direction] for row in connection.execute(query)]

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        """Return the attributes of a study."""
        return self._study_attributes(optuna_schema.study_user_attributes, study_id)

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """Return Optuna's own attributes of a study."""
        return self._study_attributes(optuna_schema.study_system_attributes, study_id)

    def _study_attributes(self, table: sa.Table, study_id: int) -> dict[str, Any]:
        with self._engine.begin() as connection:
            self._name(connection, study_id)
            query = sa.select(table).where(table.c.study_id == study_id)
            return attributes(connection.execute(query))

    def get_all_studies(self) -> list[FrozenStudy]:
        """Return every study by ID."""
        table = optuna_schema.studies
        with self._engine.begin() as connection:
            rows = connection.execute(sa.select(table).order_by(table.c.study_id)).all()
        return [
            FrozenStudy(
                study_name=row.study_name,
                direction=None,
                directions=self.get_study_directions(row.study_id),
                user_attrs=self.get_study_user_attrs(row.study_id),
                system_attrs=self.get_study_system_attrs(row.study_id),
                study_id=row.study_id,
            )
            for row in rows
        ]

    @staticmethod
    def _name(connection: sa.Connection, study_id: int) -> str:
        table = optuna_schema.studies
        query = sa.select(table.c.study_name).where(table.c.study_id == study_id)
        name: str | None = connection.execute(query).scalar()
        if name is None:
            raise KeyError(f"there is no study with the ID {study_id}")
        return name

    # --- writing trials

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Add a trial: a running one, or a copy of the template."""
        state = template_trial.state if template_trial else TrialState.RUNNING
        began = template_trial.datetime_start if template_trial else self._now()
        ended = template_trial.datetime_complete if template_trial else None
        study = {"of_study": study_id}
        row = {
            "state": state.name if not state.is_finished() else "RUNNING",  # until it is filled
            "datetime_start": stored_time(began),
            "datetime_complete": stored_time(ended),
        }

        def create(transaction: Transaction) -> int:
            if transaction.is_again:
                raise StorageInternalError(
                    "the connection was lost while a trial was created; it may be there, RUNNING"
                )
            locked, created = transaction.run(
                [Write(optuna_rows.LOCK_STUDY, study), Write(_NEW_TRIAL, {**study, **row})]
            )
            if not locked.count:
                raise KeyError(f"there is no study with the ID {study_id}")
            trial_id: int = created.rows[0][0]
            if template_trial:
                transaction.run(_copied(trial_id, template_trial))
            return trial_id

        return self._writer.transact(create, is_durable=True)

    def set_trial_param(
        self,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
    ) -> None:
        """Set a parameter; its distribution must fit that of the study's other trials."""
        study_id = self._updatable(trial_id)
        self._check_distribution(study_id, param_name, distribution)
        row = {
            "param_name": param_name,
            "param_value": param_value_internal,
            "distribution_json": distribution_to_json(distribution),
        }
        self._set(_PARAM, trial_id, row)

    def _check_distribution(self, study_id: int, name: str, given: BaseDistribution) -> None:
        with self._lock:
            known = self._distributions.get((study_id, name))
        if known is None:
            params, trials = optuna_schema.trial_params, optuna_schema.trials
            query = (
                sa.select(params.c.distribution_json)
                .join(trials, trials.c.trial_id == params.c.trial_id)
                .where(trials.c.study_id == study_id, params.c.param_name == name)
                .limit(1)
            )
            with self._engine.begin() as connection:
                text = connection.execute(query).scalar()
            known = json_to_distribution(text) if text else given
            with self._lock:
                self._distributions[study_id, name] = known
        check_distribution_compatibility(known, given)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """Change the state; False when a trial is to run that does so already."""
        of = {"of_trial": trial_id, "new_state": state.name}
        now = stored_time(self._now())
        if state is TrialState.RUNNING:
            change = Write(_BEGIN, {**of, "new_datetime_start": now})
        elif state.is_finished():
            change = Write(_END, {**of, "new_datetime_complete": now})
        else:
            change = Write(_STATE, of)
        writes = [
            Write(_VALUE, {"of_trial": trial_id, **optuna_rows.value_row(index, value)})
            for index, value in enumerate(values or ())
        ]

        def run(transaction: Transaction) -> bool:
            is_changed = bool(transaction.run([*writes, change])[-1].count)
            # Repeated after a lost connection, it may have been this very change that ended it.
            return is_changed or (transaction.is_again and self._state(trial_id) is state)

        if self._writer.transact(run, is_durable=True):
            return True
        self._updatable(trial_id)
        return False

    def _state(self, trial_id: int) -> TrialState:
        with self._lock, self._engine.begin() as connection:
            return self._trials.by_id(connection, trial_id).state

    def set_trial_intermediate_value(
        self, trial_id: int, step: int, intermediate_value: float
    ) -> None:
        """Report a value; one of the same step is overwritten."""
        row = optuna_rows.intermediate_value_row(step, intermediate_value)
        self._set(_INTERMEDIATE_VALUE, trial_id, row)

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Set an attribute of a trial."""
        self._set(_USER_ATTRIBUTE, trial_id, optuna_rows.attribute_row(key, value))

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Set one of Optuna's own attributes of a trial."""
        self._set(_SYSTEM_ATTRIBUTE, trial_id, optuna_rows.attribute_row(key, value))

    def _set(self, statement: Statement, trial_id: int, row: Mapping[str, Any]) -> None:
        write = Write(statement, {"of_trial": trial_id, **row})
        [result] = self._writer.transact(
            lambda transaction: transaction.run([write]), is_durable=False
        )
        if not result.count:
            self._updatable(trial_id)

    def _updatable(self, trial_id: int) -> int:
        """Return the study of a trial that may be written to.

        Raises:
            KeyError: there is no such trial.
            UpdateFinishedTrialError: it has ended.
        """
        table = optuna_schema.trials
        query = sa.select(table.c.study_id, table.c.state).where(table.c.trial_id == trial_id)
        with self._engine.begin() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise KeyError(f"there is no trial with the ID {trial_id}")
        self.check_trial_is_updatable(trial_id, TrialState[row.state])
        study_id: int = row.study_id
        return study_id

    def _now(self) -> datetime:
        return self._clock.now().astimezone()

    # --- reading trials

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return a trial; it must not be changed."""
        with self._lock, self._engine.begin() as connection:
            return self._trials.by_id(connection, trial_id)

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,  # noqa: FBT001, FBT002  # Optuna's signature
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Return a study's trials by number."""
        with self._lock, self._engine.begin() as connection:
            self._name(connection, study_id)
            trials = self._trials.of_study(connection, study_id, states)
        return copy.deepcopy(trials) if deepcopy else trials

    def get_trial_id_from_study_id_trial_number(self, study_id: int, trial_number: int) -> int:
        """Return the ID of a trial."""
        table = optuna_schema.trials
        query = sa.select(table.c.trial_id).where(
            table.c.study_id == study_id, table.c.number == trial_number
        )
        with self._engine.begin() as connection:
            trial_id: int | None = connection.execute(query).scalar()
        if trial_id is None:
            raise KeyError(f"the study with the ID {study_id} has no trial {trial_number}")
        return trial_id


def open_optuna_study(url: str, name: str) -> Study:
    """Return a study of the ledger at `url` for Optuna's plots, importances and exports."""
    return load_study(study_name=name, storage=OptunaStorage(url))


def _copied(trial_id: int, template: FrozenTrial) -> list[Write]:
    """Return what fills a new trial with a template's contents; its state comes last."""
    of = {"of_trial": trial_id}
    rows: list[tuple[Statement, Mapping[str, Any]]] = []
    for index, value in enumerate(template.values or ()):
        rows.append((_VALUE, optuna_rows.value_row(index, value)))
    for name, value in template.params.items():
        distribution = template.distributions[name]
        row = {
            "param_name": name,
            "param_value": distribution.to_internal_repr(value),
            "distribution_json": distribution_to_json(distribution),
        }
        rows.append((_PARAM, row))
    for key, value in template.user_attrs.items():
        rows.append((_USER_ATTRIBUTE, optuna_rows.attribute_row(key, value)))
    for key, value in template.system_attrs.items():
        rows.append((_SYSTEM_ATTRIBUTE, optuna_rows.attribute_row(key, value)))
    for step, value in template.intermediate_values.items():
        rows.append((_INTERMEDIATE_VALUE, optuna_rows.intermediate_value_row(step, value)))
    rows.append((_STATE, {"new_state": template.state.name}))
    return [Write(statement, {**of, **row}) for statement, row in rows]
