"""Our own tables, beside Optuna's in the same database, with their own version."""

import sqlalchemy as sa

SCHEMA_VERSION = 2
"""Raised by every change of these tables, together with a migration."""

metadata = sa.MetaData()

version = sa.Table(
    "hpo_version",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
)

studies = sa.Table(
    "hpo_studies",
    metadata,
    sa.Column("study_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("uid", sa.String(32), nullable=False, unique=True),
    sa.Column("name", sa.String(512), nullable=False, unique=True),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("distributions_json", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(40), nullable=False),
    sa.Column("ended_at", sa.String(40)),
    sa.Column("running_s", sa.Float(53), nullable=False),
    sa.Column("stop_requested_at", sa.String(40)),
)

trials = sa.Table(
    "hpo_trials",
    metadata,
    sa.Column("trial_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("study_id", sa.Integer, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("params_json", sa.Text, nullable=False),
    sa.Column("config_json", sa.Text, nullable=False),
    sa.Column("config_id", sa.String(12), nullable=False),
    sa.Column("replicate", sa.Integer, nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("axis", sa.String(512)),
    sa.Column("token", sa.String(32)),
    sa.Column("num_attempts", sa.Integer, nullable=False, default=0),
    sa.Column("reason", sa.Text, nullable=False, default=""),
    sa.Column("failure", sa.String(16)),
    sa.Column("best_epoch", sa.Integer),
    sa.Column("weights_sha256", sa.String(64)),
    sa.UniqueConstraint("study_id", "number"),
)

attempts = sa.Table(
    "hpo_attempts",
    metadata,
    sa.Column("token", sa.String(32), primary_key=True),
    sa.Column("trial_id", sa.Integer, nullable=False, index=True),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("device", sa.String(64), nullable=False),
    sa.Column("num_threads", sa.Integer, nullable=False),
    sa.Column("environment_id", sa.String(64), nullable=False),
    sa.Column("started_at", sa.String(40), nullable=False),
    sa.Column("ended_at", sa.String(40)),
    sa.Column("outcome", sa.Text),
    sa.UniqueConstraint("trial_id", "attempt"),
)

environments = sa.Table(
    "hpo_environments",
    metadata,
    sa.Column("environment_id", sa.String(64), primary_key=True),
    sa.Column("document", sa.Text, nullable=False),
)

measurements = sa.Table(
    "hpo_measurements",
    metadata,
    sa.Column("trial_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("examples_seen", sa.Integer, nullable=False),
    sa.Column("metrics_json", sa.Text, nullable=False),
    sa.Column("action", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)

checkpoints = sa.Table(
    "hpo_checkpoints",
    metadata,
    sa.Column("trial_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(8), primary_key=True),
    sa.Column("uri", sa.Text, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("num_bytes", sa.Integer, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)

notes = sa.Table(
    "hpo_notes",
    metadata,
    sa.Column("note_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer, nullable=False, index=True),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)

test_results = sa.Table(
    "hpo_test_results",
    metadata,
    sa.Column("study_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("config_id", sa.String(12), primary_key=True),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)

owners = sa.Table(
    "hpo_owners",
    metadata,
    sa.Column("study_name", sa.String(512), primary_key=True),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("backend_pid", sa.Integer, nullable=False),
    sa.Column("token", sa.String(32), nullable=False),
)
"""Who says that it conducts a study; believed only while its server process holds the lock."""

applies = sa.Table(
    "hpo_applies",
    metadata,
    sa.Column("study_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("apply_id", sa.String(32), nullable=False),
)
"""The latest apply of each study on PostgreSQL, by which one that was cut off knows its end."""

ADDED_IN = {2: (owners, applies)}
"""The tables that each version added to the one before."""

TRIAL_TABLES = (attempts, measurements, checkpoints, notes, trials)
"""Every table with rows that belong to one trial, for deletion."""
