"""Reads trials out of Optuna's rows as Optuna's own `FrozenTrial`s."""

import copy
import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from optuna.distributions import BaseDistribution, json_to_distribution
from optuna.trial import FrozenTrial, TrialState

from hpo.storage import optuna_schema

_INFINITE = {"INF_POS": float("inf"), "INF_NEG": float("-inf"), "NAN": float("nan")}

_CHUNK = 500
"""Trials asked for by their IDs in one statement; above that, all of the study are read."""


class FrozenTrials:
    """Trials as Optuna sees them. Those that have ended are kept, since they never change."""

    def __init__(self) -> None:
        self._ended: dict[int, tuple[Any, FrozenTrial]] = {}

    def of_study(
        self, connection: sa.Connection, study_id: int, states: Container[TrialState] | None
    ) -> list[FrozenTrial]:
        """Return a study's trials by number; they are shared, and must not be changed."""
        table = optuna_schema.trials
        query = sa.select(table).where(table.c.study_id == study_id).order_by(table.c.trial_id)
        rows = [
            row
            for row in connection.execute(query)
            if states is None or TrialState[row.state] in states
        ]
        unknown = [row for row in rows if not self._holds(row)]
        read = {trial._trial_id: trial for trial in self._read(connection, unknown, study_id)}  # noqa: SLF001
        return [read.get(row.trial_id) or self._ended[row.trial_id][1] for row in rows]

    def by_id(self, connection: sa.Connection, trial_id: int) -> FrozenTrial:
        """Return one trial.

        Raises:
            KeyError: there is none.
        """
        table = optuna_schema.trials
        row = connection.execute(
            sa.select(table).where(table.c.trial_id == trial_id)
        ).one_or_none()
        if row is None:
            raise KeyError(f"there is no trial with the ID {trial_id}")
        if self._holds(row):
            return self._ended[trial_id][1]
        [trial] = self._read(connection, [row], row.study_id)
        return trial

    def _holds(self, row: sa.Row[Any]) -> bool:
        # The whole row is compared: a deleted study's IDs may be given to another one's trials.
        return self._ended.get(row.trial_id, (None,))[0] == row

    def _read(
        self, connection: sa.Connection, rows: list[sa.Row[Any]], study_id: int
    ) -> list[FrozenTrial]:
        if not rows:
            return []
        parts = _Parts(connection, [row.trial_id for row in rows], study_id)
        trials = [parts.trial(row) for row in rows]
        for row, trial in zip(rows, trials, strict=True):
            if trial.state.is_finished():
                self._ended[trial._trial_id] = (row, trial)  # noqa: SLF001
        return trials


class _Parts:
    """The rows that belong to some trials of one study."""

    def __init__(self, connection: sa.Connection, trial_ids: list[int], study_id: int) -> None:
        trials = optuna_schema.trials

        def rows(table: sa.Table, order: str) -> dict[int, list[sa.Row[Any]]]:
            if len(trial_ids) <= _CHUNK:
                wanted = table.c.trial_id.in_(trial_ids)
            else:
                of_study = sa.select(trials.c.trial_id).where(trials.c.study_id == study_id)
                wanted = table.c.trial_id.in_(of_study)
            found: dict[int, list[sa.Row[Any]]] = defaultdict(list)
            for row in connection.execute(sa.select(table).where(wanted).order_by(table.c[order])):
                found[row.trial_id].append(row)
            return found

        self._params = rows(optuna_schema.trial_params, "param_id")
        self._values = rows(optuna_schema.trial_values, "objective")
        self._curves = rows(optuna_schema.trial_intermediate_values, "trial_intermediate_value_id")
        self._user = rows(optuna_schema.trial_user_attributes, "trial_user_attribute_id")
        self._system = rows(optuna_schema.trial_system_attributes, "trial_system_attribute_id")
        self._distribution = _remembered(json_to_distribution)

    def trial(self, row: sa.Row[Any]) -> FrozenTrial:
        """Put one trial together."""
        of = row.trial_id
        distributions: dict[str, BaseDistribution] = {
            param.param_name: self._distribution(param.distribution_json)
            for param in self._params[of]
        }
        return FrozenTrial(
            number=row.number,
            state=TrialState[row.state],
            value=None,
            values=[_number(v.value, v.value_type) for v in self._values[of]] or None,
            datetime_start=local_time(row.datetime_start),
            datetime_complete=local_time(row.datetime_complete),
            params={
                param.param_name: distributions[param.param_name].to_external_repr(
                    param.param_value
                )
                for param in self._params[of]
            },
            distributions=distributions,
            user_attrs=attributes(self._user[of]),
            system_attrs=attributes(self._system[of]),
            intermediate_values={
                v.step: _number(v.intermediate_value, v.intermediate_value_type)
                for v in self._curves[of]
            },
            trial_id=of,
        )


def _remembered(
    read: Callable[[str], BaseDistribution],
) -> Callable[[str], BaseDistribution]:
    """Read each text once: all trials of a study have the same few distributions."""
    known: dict[str, BaseDistribution] = {}

    def recall(text: str) -> BaseDistribution:
        if text not in known:
            known[text] = read(text)
        return copy.copy(known[text])

    return recall


def attributes(rows: Iterable[sa.Row[Any]]) -> dict[str, Any]:
    """Return the attributes in rows with a `key` and a `value_json`."""
    return {row.key: json.loads(row.value_json) for row in rows}


def _number(stored: float | None, kind: str) -> float:
    return stored if stored is not None else _INFINITE[kind]


def stored_time(local: datetime | None) -> datetime | None:
    """Return a time of this machine's zone as Optuna stores it: UTC without a zone."""
    return local and local.astimezone(UTC).replace(tzinfo=None)


def local_time(stored: datetime | None) -> datetime | None:
    """Return a stored time as Optuna shows it: of this machine's zone, without naming it."""
    return stored and stored.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)
