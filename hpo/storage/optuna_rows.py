"""Statements that write Optuna's rows, each in one place for both of its writers.

`event_writer.py` writes what our conductor says, `optuna_storage.py` what Optuna's own API says.
They differ in which trial may be written to, which is the argument of each.
"""

import json
import math
from typing import Any

import sqlalchemy as sa

from hpo.storage import optuna_schema
from hpo.storage.statement import Source, Statement, change, put

UPDATABLE = ("RUNNING", "WAITING")
"""States of a trial that Optuna lets anyone change."""

UPDATABLE_TRIAL: Source = sa.select(optuna_schema.trials.c.trial_id).where(
    optuna_schema.trials.c.trial_id == sa.bindparam("of_trial", type_=sa.Integer),
    optuna_schema.trials.c.state.in_([sa.literal_column(f"'{state}'") for state in UPDATABLE]),
)
"""A trial by its ID, unless it has ended."""


def _lock_study(_: str) -> sa.ClauseElement:
    table = optuna_schema.studies
    return (
        sa.select(table.c.study_id)
        .where(table.c.study_id == sa.bindparam("of_study"))
        .with_for_update()
    )


LOCK_STUDY = Statement(_lock_study)
"""Keeps everyone else from numbering trials of a study, as Optuna's own storage does."""


def _next_number() -> sa.ColumnElement[int]:
    # The last row rather than a count of all, which would cost more with every trial.
    trials = optuna_schema.trials
    last = (
        sa.select(trials.c.number)
        .where(trials.c.study_id == sa.bindparam("of_study", type_=sa.Integer))
        .order_by(trials.c.trial_id.desc())
        .limit(1)
        .scalar_subquery()
    )
    return sa.func.coalesce(last, -1) + 1


NEXT_NUMBER = Statement(lambda _: sa.select(_next_number()))
"""The number that a study's next trial gets."""


def new_trial(*, is_planned: bool) -> Statement:
    """Return the insert of a trial under the number that comes next in its study.

    It returns the new trial's ID.

    Args:
        is_planned: whether the caller says which number that is; another one inserts nothing.
    """
    trials, studies = optuna_schema.trials, optuna_schema.studies
    following = _next_number()
    names = ("state", "datetime_start", "datetime_complete")
    values = [sa.bindparam(name, type_=trials.c[name].type) for name in names]
    source = sa.select(studies.c.study_id, following, *values).where(
        studies.c.study_id == sa.bindparam("of_study", type_=sa.Integer)
    )
    if is_planned:
        source = source.where(following == sa.bindparam("number", type_=sa.Integer))
    insert = trials.insert().from_select(["study_id", "number", *names], source)
    construct = insert.returning(trials.c.trial_id)
    return Statement(lambda _: construct)


def put_param(trial: Source) -> Statement:
    """Set a parameter: `param_name`, `param_value`, `distribution_json`."""
    names = ("param_name", "param_value", "distribution_json")
    return put(optuna_schema.trial_params, trial, names, replaces=["param_name"])


def put_attribute(table: sa.Table, trial: Source) -> Statement:
    """Set an attribute: `key`, `value_json`."""
    return put(table, trial, ("key", "value_json"), replaces=["key"])


def put_value(trial: Source) -> Statement:
    """Set a final value; see `value_row`."""
    names = ("objective", "value", "value_type")
    return put(optuna_schema.trial_values, trial, names, replaces=["objective"])


def put_intermediate_value(trial: Source) -> Statement:
    """Set an intermediate value; see `intermediate_value_row`."""
    names = ("step", "intermediate_value", "intermediate_value_type")
    return put(optuna_schema.trial_intermediate_values, trial, names, replaces=["step"])


def change_trial(trial: Source, *names: str) -> Statement:
    """Change columns of a trial's own row."""
    return change(optuna_schema.trials, trial, names)


def value_row(objective: int, value: float) -> dict[str, Any]:
    """Return the parameters of `put_value`."""
    kind = optuna_schema.value_type(value)
    return {"objective": objective, "value": _stored(value), "value_type": kind}


def intermediate_value_row(step: int, value: float) -> dict[str, Any]:
    """Return the parameters of `put_intermediate_value`."""
    return {
        "step": step,
        "intermediate_value": _stored(value),
        "intermediate_value_type": optuna_schema.value_type(value),
    }


def attribute_row(key: str, value: object) -> dict[str, Any]:
    """Return the parameters of `put_attribute`."""
    return {"key": key, "value_json": json.dumps(value)}


def _stored(value: float) -> float | None:
    """Return the number, or None for one that only its type tells, as Optuna stores them."""
    return value if math.isfinite(value) else None
