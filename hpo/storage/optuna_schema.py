"""Optuna's own tables, as far as the ledger writes them.

Optuna creates and migrates them (`create_optuna_tables`); we write rows into them in our own
transactions, because its storage opens several transactions for each event. A test holds these
definitions to the schema that the installed Optuna really creates.

Source: optuna/storages/_rdb/models.py, schema version 12.
"""

import math

import sqlalchemy as sa

metadata = sa.MetaData()

studies = sa.Table(
    "studies",
    metadata,
    sa.Column("study_id", sa.Integer, primary_key=True),
    sa.Column("study_name", sa.String(512), nullable=False),
)

study_directions = sa.Table(
    "study_directions",
    metadata,
    sa.Column("study_direction_id", sa.Integer, primary_key=True),
    sa.Column(
        "direction",
        sa.Enum("NOT_SET", "MINIMIZE", "MAXIMIZE", name="studydirection"),
        nullable=False,
    ),
    sa.Column("study_id", sa.Integer, nullable=False),
    sa.Column("objective", sa.Integer, nullable=False),
)

study_user_attributes = sa.Table(
    "study_user_attributes",
    metadata,
    sa.Column("study_user_attribute_id", sa.Integer, primary_key=True),
    sa.Column("study_id", sa.Integer),
    sa.Column("key", sa.String(512)),
    sa.Column("value_json", sa.Text),
)

study_system_attributes = sa.Table(
    "study_system_attributes",
    metadata,
    sa.Column("study_system_attribute_id", sa.Integer, primary_key=True),
    sa.Column("study_id", sa.Integer),
    sa.Column("key", sa.String(512)),
    sa.Column("value_json", sa.Text),
)

trials = sa.Table(
    "trials",
    metadata,
    sa.Column("trial_id", sa.Integer, primary_key=True),
    sa.Column("number", sa.Integer),
    sa.Column("study_id", sa.Integer),
    sa.Column(
        "state",
        sa.Enum("RUNNING", "COMPLETE", "PRUNED", "FAIL", "WAITING", name="trialstate"),
        nullable=False,
    ),
    sa.Column("datetime_start", sa.DateTime),
    sa.Column("datetime_complete", sa.DateTime),
)

trial_params = sa.Table(
    "trial_params",
    metadata,
    sa.Column("param_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer),
    sa.Column("param_name", sa.String(512)),
    sa.Column("param_value", sa.Float(53)),
    sa.Column("distribution_json", sa.Text),
)

trial_values = sa.Table(
    "trial_values",
    metadata,
    sa.Column("trial_value_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer, nullable=False),
    sa.Column("objective", sa.Integer, nullable=False),
    sa.Column("value", sa.Float(53)),
    sa.Column(
        "value_type",
        sa.Enum("FINITE", "INF_POS", "INF_NEG", name="trialvaluetype"),
        nullable=False,
    ),
)

trial_intermediate_values = sa.Table(
    "trial_intermediate_values",
    metadata,
    sa.Column("trial_intermediate_value_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer, nullable=False),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("intermediate_value", sa.Float(53)),
    sa.Column(
        "intermediate_value_type",
        sa.Enum("FINITE", "INF_POS", "INF_NEG", "NAN", name="trialintermediatevaluetype"),
        nullable=False,
    ),
)

trial_user_attributes = sa.Table(
    "trial_user_attributes",
    metadata,
    sa.Column("trial_user_attribute_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer),
    sa.Column("key", sa.String(512)),
    sa.Column("value_json", sa.Text),
)

trial_system_attributes = sa.Table(
    "trial_system_attributes",
    metadata,
    sa.Column("trial_system_attribute_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer),
    sa.Column("key", sa.String(512)),
    sa.Column("value_json", sa.Text),
)

trial_heartbeats = sa.Table(
    "trial_heartbeats",
    metadata,
    sa.Column("trial_heartbeat_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer, nullable=False),
    sa.Column("heartbeat", sa.DateTime, nullable=False),
)

TRIAL_TABLES = (
    trial_params,
    trial_values,
    trial_intermediate_values,
    trial_user_attributes,
    trial_system_attributes,
    trial_heartbeats,
)
"""Every table with rows that belong to one trial, for deletion."""

STUDY_TABLES = (study_directions, study_user_attributes, study_system_attributes)
"""Every table with rows that belong to one study, for deletion."""


def create_optuna_tables(url: str) -> None:
    """Create Optuna's tables at `url`, or check that those there fit the installed Optuna.

    Raises:
        RuntimeError: the tables belong to an Optuna of another schema version.
    """
    from optuna.storages import RDBStorage  # noqa: PLC0415  # 0.3 s, only for a new database

    storage = RDBStorage(url)
    storage.engine.dispose()


def value_type(value: float) -> str:
    """Return the word Optuna stores beside a number that may not be finite."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INF_POS" if value > 0 else "INF_NEG"
    return "FINITE"
