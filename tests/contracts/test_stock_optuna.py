"""Promise 5 of the ledger: stock Optuna reads the same database at any time."""

import contextlib
import math
from collections.abc import Iterator

import optuna
import pytest
import sqlalchemy as sa
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import RDBStorage

from hpo.domain.study import StudyState
from hpo.domain.trial import TrialState
from hpo.storage import optuna_schema
from hpo.storage.sql_ledger import SqlLedger
from tests.contracts.conftest import Databases
from tests.fakes import studies as s


@pytest.fixture
def ledger(database: str) -> Iterator[SqlLedger]:
    """Return a ledger with one study that has a trial in each state."""
    ledger = SqlLedger(database)
    ledger.create_study(s.new_study())
    best = s.planned(1, lr=3e-4, batch_size=256, optimizer="lion", nesterov=True)
    plans = (s.planned(0), best, *map(s.planned, (2, 3, 4)))
    ledger.apply(s.UID, [s.plan_of(plans), *(s.started(n, f"t{n}") for n in (0, 1, 2, 3))])
    ledger.apply(s.UID, [s.measured(n, f"t{n}", 1, 0.75) for n in (0, 1, 2, 3)])
    ledger.apply(s.UID, [s.measured(0, "t0", 2, 0.5), s.ended(0, "t0", value=0.5)])
    ledger.apply(s.UID, [s.measured(1, "t1", 2, 0.25), s.ended(1, "t1", value=0.25)])
    ledger.apply(s.UID, [s.ended(2, "t2", TrialState.PRUNED, value=0.75)])
    ledger.apply(s.UID, [s.ended(3, "t3", TrialState.FAIL, value=None)])
    ledger.apply(s.UID, [s.plan([5]), s.started(5, "t5"), s.measured(5, "t5", 1, 0.125)])
    yield ledger
    ledger.close()


@contextlib.contextmanager
def optuna_storage(url: str) -> Iterator[RDBStorage]:
    storage = RDBStorage(url)
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


@pytest.fixture
def study(ledger: SqlLedger, database: str) -> Iterator[optuna.Study]:
    """Return the study as Optuna loads it, while the ledger is open."""
    with optuna_storage(database) as storage:
        yield optuna.load_study(study_name="lr-digits", storage=storage)


def test_optuna_sees_every_trial_in_its_state(study: optuna.Study) -> None:
    trials = study.get_trials()
    assert [trial.number for trial in trials] == [0, 1, 2, 3, 4, 5]
    assert [trial.state.name for trial in trials] == [
        "COMPLETE",
        "COMPLETE",
        "PRUNED",
        "FAIL",
        "WAITING",
        "RUNNING",
    ]
    assert study.directions == [optuna.study.StudyDirection.MINIMIZE]
    assert [trial.datetime_start is None for trial in trials] == [n == 4 for n in range(6)]
    assert [trial.datetime_complete is None for trial in trials] == [n > 3 for n in range(6)]


def test_optuna_sees_values_and_curves_also_of_a_failed_trial(study: optuna.Study) -> None:
    trials = study.get_trials()
    assert [trial.intermediate_values for trial in trials] == [
        {1: 0.75, 2: 0.5},
        {1: 0.75, 2: 0.25},
        {1: 0.75},
        {1: 0.75},
        {},
        {1: 0.125},
    ]
    assert [trial.value for trial in trials[:3]] == [0.5, 0.25, 0.75]
    assert [trial.value for trial in trials[3:]] == [None, None, None]


def test_optuna_names_the_best_trial_with_its_params(study: optuna.Study) -> None:
    best = study.best_trial
    assert (best.number, study.best_value) == (1, 0.25)
    assert best.params == {"lr": 3e-4, "batch_size": 256, "optimizer": "lion", "nesterov": True}
    assert [type(value) for value in best.params.values()] == [float, int, str, bool]
    assert best.distributions == {
        "lr": FloatDistribution(1e-5, 1.0, log=True),
        "batch_size": IntDistribution(16, 256),
        "optimizer": CategoricalDistribution(("adamw", "sgd", "lion")),
        "nesterov": CategoricalDistribution((False, True)),
    }


def test_optuna_shows_what_a_trial_is_for(study: optuna.Study) -> None:
    pruned = study.get_trials()[2]
    assert pruned.user_attrs == {
        "hpo:config_id": s.planned(2).config_id,
        "hpo:replicate": 2,
        "hpo:role": "point",
        "hpo:axis": "lr",
        "hpo:reason": "for a reason",
    }


def test_every_trial_passes_optunas_own_check_and_can_be_copied(study: optuna.Study) -> None:
    copy = optuna.create_study(direction="minimize")
    copy.add_trials(study.get_trials())  # refuses an inconsistent trial
    assert copy.best_trial.params == study.best_trial.params


def test_optunas_importances_and_samplers_take_the_study(study: optuna.Study) -> None:
    copy = optuna.create_study(
        direction="minimize", sampler=optuna.samplers.TPESampler(n_startup_trials=1, seed=1)
    )
    copy.add_trials([trial for trial in study.get_trials() if trial.state.is_finished()])
    suggested = copy.ask(dict(study.best_trial.distributions)).params
    assert 1e-5 <= suggested["lr"] <= 1.0
    importances = optuna.importance.get_param_importances(study)
    assert set(importances) <= set(study.best_trial.params)


def test_optuna_opens_a_database_that_the_ledger_is_writing(
    ledger: SqlLedger, database: str
) -> None:
    with optuna_storage(database) as storage:
        study = optuna.load_study(study_name="lr-digits", storage=storage)
        assert len(study.get_trials()[5].intermediate_values) == 1
        ledger.apply(s.UID, [s.measured(5, "t5", 2, 0.0625), s.ended(5, "t5", value=0.0625)])
        ledger.apply(s.UID, [s.study_state(StudyState.FINISHED)])
        assert study.best_trial.number == 5
        assert study.best_trial.last_step == 2


def test_a_deleted_study_is_gone_for_optuna_and_its_name_is_free(
    ledger: SqlLedger, database: str
) -> None:
    ledger.delete_study(s.UID)
    with optuna_storage(database) as storage:
        assert optuna.get_all_study_names(storage) == []
        optuna.create_study(study_name="lr-digits", storage=storage)


# --- the schema


def of_optuna(database: str) -> sa.MetaData:
    """Return the tables that the installed Optuna creates."""
    with optuna_storage(database) as storage:
        metadata = sa.MetaData()
        metadata.reflect(storage.engine)
    for table in ("alembic_version", "version_info"):
        metadata.remove(metadata.tables[table])
    return metadata


def form(column: sa.Column[object]) -> tuple[bool, bool, str]:
    """Return what of a column must agree: key, nullability and kind of type."""
    kind = column.type
    if isinstance(kind, sa.Enum) and kind.enums:
        written = "ENUM " + ", ".join(sorted(kind.enums))
    elif isinstance(kind, sa.String):
        written = f"TEXT {kind.length or ''}"
    else:
        written = type(kind.as_generic()).__name__.replace("Double", "Float")
    return column.primary_key, bool(column.nullable), written


def test_our_picture_of_optunas_tables_is_the_schema_that_optuna_creates(
    databases: Databases,
) -> None:
    database = databases.empty()
    theirs, ours = of_optuna(database), optuna_schema.metadata
    assert set(ours.tables) == set(theirs.tables)
    is_sqlite = database.startswith("sqlite")  # where an enum is a text of its longest word
    for name, table in ours.tables.items():
        their_form = {c.name: form(c) for c in theirs.tables[name].columns}
        our_form = {c.name: form(as_text(c) if is_sqlite else c) for c in table.columns}
        assert our_form == their_form, name


def as_text(column: sa.Column[object]) -> sa.Column[object]:
    if not isinstance(column.type, sa.Enum):
        return column
    return sa.Column(
        column.name,
        sa.String(column.type.length),
        primary_key=column.primary_key,
        nullable=column.nullable,
    )


@pytest.mark.parametrize("value", [0.0, -1.5, math.inf, -math.inf, math.nan])
def test_a_number_is_stored_as_optuna_stores_it(database: str, value: float) -> None:
    with optuna_storage(database) as storage:
        study = optuna.create_study(storage=storage)
        trial = study.ask()
        trial.report(value, step=1)
        with storage.engine.connect() as connection:
            table = optuna_schema.trial_intermediate_values
            stored = connection.execute(sa.select(table.c.intermediate_value_type)).scalar_one()
    assert optuna_schema.value_type(value) == stored
