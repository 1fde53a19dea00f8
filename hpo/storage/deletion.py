"""Deleting a study: every row of it in Optuna's tables and in ours."""

import sqlalchemy as sa

from hpo.storage import hpo_schema, optuna_schema


def delete_study_rows(connection: sa.Connection, study_id: int) -> None:
    """Delete a study's rows, its trials' first; rows that other studies share stay."""
    trials, studies = optuna_schema.trials, optuna_schema.studies
    trial_ids = sa.select(trials.c.trial_id).where(trials.c.study_id == study_id)
    for table in (*hpo_schema.TRIAL_TABLES, *optuna_schema.TRIAL_TABLES):
        connection.execute(table.delete().where(table.c.trial_id.in_(trial_ids)))
    environments, attempts = hpo_schema.environments, hpo_schema.attempts
    connection.execute(  # those that no other study's attempts ran under
        environments.delete().where(
            environments.c.environment_id.not_in(sa.select(attempts.c.environment_id))
        )
    )
    name = sa.select(studies.c.study_name).where(studies.c.study_id == study_id)
    owners = hpo_schema.owners
    connection.execute(owners.delete().where(owners.c.study_name.in_(name)))
    for table in (
        hpo_schema.test_results,
        hpo_schema.applies,
        hpo_schema.studies,
        trials,
        *optuna_schema.STUDY_TABLES,
        studies,
    ):
        connection.execute(table.delete().where(table.c.study_id == study_id))
