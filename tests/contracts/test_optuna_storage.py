"""Our storage keeps Optuna's promises: Optuna's own suite, over SQLite and PostgreSQL."""

import contextlib
import pickle
from collections.abc import Iterator

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.testing.pytest_storages import StorageTestCase
from optuna.trial import TrialState

from hpo.domain import event as ev
from hpo.domain.trial import TrialState as Ended
from hpo.storage.optuna_storage import OptunaStorage
from hpo.storage.sql_ledger import SqlLedger
from tests.contracts.conftest import Databases
from tests.fakes import studies as s

SPACE = {
    "lr": FloatDistribution(1e-5, 1.0, log=True),
    "optimizer": CategoricalDistribution(("adamw", "sgd", None)),
}


@pytest.fixture
def storage(database: str) -> Iterator[OptunaStorage]:
    """Return a storage without studies."""
    storage = OptunaStorage(database)
    yield storage
    storage.close()


@contextlib.contextmanager
def stock(url: str) -> Iterator[RDBStorage]:
    storage = RDBStorage(url)
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


class TestOptunasOwnSuite(StorageTestCase):
    """Every test of `optuna.testing` for a storage."""

    def test_pickle_storage(self, storage: BaseStorage) -> None:
        """As theirs, which leaves the copy's connections open."""
        study_id = storage.create_new_study([StudyDirection.MINIMIZE])
        storage.set_study_system_attr(study_id, "key", "pickle")
        copied = pickle.loads(pickle.dumps(storage))  # noqa: S301  # our own
        assert copied.get_study_system_attrs(study_id) == {"key": "pickle"}
        copied.close()


def train(study: optuna.Study, num_trials: int) -> None:
    """Ask, report, tell; every third trial is pruned, every fifth fails."""
    for _ in range(num_trials):
        trial = study.ask(SPACE)
        trial.set_user_attr("note", {"number": trial.number})
        trial.report(1.0 / (trial.number + 1), step=1)
        trial.report(float("nan"), step=2)
        if trial.number % 5 == 4:
            study.tell(trial, state=TrialState.FAIL)
        elif trial.number % 3 == 2:
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, float("inf") if trial.number == 0 else 0.5 + trial.number)


def shown(study: optuna.Study) -> list[str]:
    """Return everything about every trial; NaN is equal to itself as a text."""
    return [repr(trial) for trial in study.get_trials()]


def test_stock_optuna_opens_what_ours_wrote_before_during_and_after(databases: Databases) -> None:
    database = databases.empty()
    with stock(database) as theirs:
        before = optuna.create_study(storage=theirs, study_name="mixed")
        train(before, 4)
    ours = OptunaStorage(database)
    with stock(database) as theirs:
        during = optuna.load_study(study_name="mixed", storage=theirs)
        study = optuna.load_study(study_name="mixed", storage=ours)
        assert shown(study) == shown(during)
        for _ in range(3):
            train(study, 3)
            assert shown(during) == shown(study)
            train(during, 3)
            assert shown(study) == shown(during)
    ours.close()
    with stock(database) as theirs:
        after = optuna.load_study(study_name="mixed", storage=theirs)
        assert [trial.number for trial in after.trials] == list(range(22))
        assert after.best_trial.value == 1.5
        train(after, 1)


def turns() -> list[list[ev.StudyEvent]]:
    return [
        [s.ended(0, "a"), s.started(1, "b"), s.measured(1, "b", 1)],
        [s.measured(1, "b", 2), s.ended(1, "b", Ended.FAIL, value=None)],
        [],
    ]


def test_ours_reads_a_study_of_the_ledger_as_stock_optuna_does(database: str) -> None:
    ledger, ours = SqlLedger(database), OptunaStorage(database)
    ledger.create_study(s.new_study())
    ledger.apply(s.UID, [s.plan([0, 1, 2]), s.started(0, "a"), s.measured(0, "a", 1)])
    with stock(database) as theirs:
        for events in turns():
            mine = optuna.load_study(study_name="lr-digits", storage=ours).get_trials()
            assert len(mine) == 3
            assert mine == optuna.load_study(study_name="lr-digits", storage=theirs).get_trials()
            ledger.apply(s.UID, events)
    ours.close()
    ledger.close()


def test_a_trial_added_by_hand_is_numbered_with_the_ledgers(database: str) -> None:
    ledger, ours = SqlLedger(database), OptunaStorage(database)
    ledger.create_study(s.new_study())
    ledger.apply(s.UID, [s.plan([0, 1])])
    study = optuna.load_study(study_name="lr-digits", storage=ours)
    assert study.ask().number == 0  # the first that waits, as for stock Optuna
    trial_id = ours.create_new_trial(study._study_id)
    assert ours.get_trial(trial_id).number == 2
    with pytest.raises(ValueError, match="numbered from 3 without gaps"):
        ledger.apply(s.UID, [s.plan([2])])
    ours.close()
    ledger.close()


def test_a_deleted_study_takes_the_ledgers_rows_with_it(database: str) -> None:
    ledger, ours = SqlLedger(database), OptunaStorage(database)
    ledger.create_study(s.new_study())
    ledger.apply(s.UID, [s.plan([0]), s.started(0, "a"), s.measured(0, "a", 1)])
    optuna.delete_study(study_name="lr-digits", storage=ours)
    assert ledger.studies() == ()
    ledger.create_study(s.new_study(uid="again"))
    assert ledger.trials("again") == ()
    ours.close()
    ledger.close()


def test_ids_that_are_given_again_show_no_trial_of_a_deleted_study(database: str) -> None:
    ours, other = OptunaStorage(database), OptunaStorage(database)
    for value in (1.0, 2.0):
        study = optuna.create_study(storage=other, study_name="again")
        study.tell(study.ask(), value)
        assert optuna.load_study(study_name="again", storage=ours).best_value == value
        optuna.delete_study(study_name="again", storage=other)
    ours.close()
    other.close()


def test_a_waiting_trial_is_given_to_one_worker_only(database: str) -> None:
    ours, other = OptunaStorage(database), OptunaStorage(database)
    study = optuna.create_study(storage=ours, study_name="queue")
    study.enqueue_trial({"lr": 0.5})
    [waiting] = study.get_trials()
    assert ours.set_trial_state_values(waiting._trial_id, TrialState.RUNNING)
    assert not other.set_trial_state_values(waiting._trial_id, TrialState.RUNNING)
    assert other.set_trial_state_values(waiting._trial_id, TrialState.COMPLETE, [1.0])
    with pytest.raises(UpdateFinishedTrialError):
        ours.set_trial_state_values(waiting._trial_id, TrialState.RUNNING)
    with pytest.raises(DuplicatedStudyError):
        optuna.create_study(storage=other, study_name="queue")
    ours.close()
    other.close()
