"""The promises written in `hpo.storage.ledger.Ledger`, over SQLite and PostgreSQL."""

import contextlib
import dataclasses
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from hpo.domain.attempt import Attempt
from hpo.domain.decision import Action, Decision
from hpo.domain.event import StudyEvent
from hpo.domain.study import StudyState
from hpo.domain.trial import FailureKind, Trial, TrialState
from hpo.errors import UsageError
from hpo.storage import database
from hpo.storage.sql_ledger import SqlLedger
from hpo.study.history import History
from tests.contracts.conftest import Databases
from tests.fakes import studies as s

ROOT = Path(__file__).parents[2]
FIRST_VERSION = Path(__file__).parent / "data" / "ledger_v1.sql"


@pytest.fixture
def ledger(database: str) -> Iterator[SqlLedger]:
    """Return a ledger with one study that has no trials."""
    ledger = SqlLedger(database)
    ledger.create_study(s.new_study())
    yield ledger
    ledger.close()


def rows(url: str) -> dict[str, int]:
    """Count the rows of every table, as someone who knows nothing of the ledger."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    metadata = sa.MetaData()
    metadata.reflect(engine)
    with engine.connect() as connection:
        return {
            name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for name, table in metadata.tables.items()
        }


def test_an_epoch_that_is_kept_stays_while_last_and_best_move_on(ledger: SqlLedger) -> None:
    events: list[StudyEvent] = [
        s.plan([0, 1]),
        s.started(0, "a"),
        s.published(0, "a", 2, "best"),
        s.published(0, "a", 2, "@2"),
        s.published(0, "a", 4, "@4"),
        s.published(0, "a", 5, "best"),
    ]
    ledger.apply(s.UID, events)
    history = History(())
    for event in events:
        history.apply(event)
    assert ledger.checkpoint(s.UID, 0, "@2") == s.checkpoint(2, "@2")
    assert ledger.checkpoint(s.UID, 0, "@4") == s.checkpoint(4, "@4")
    assert ledger.checkpoint(s.UID, 0, "best") == s.checkpoint(5, "best")
    assert ledger.checkpoint(s.UID, 0, "@3") is None
    assert ledger.checkpoint(s.UID, 1, "best") is None
    for trial in (ledger.trials(s.UID)[0], history[0]):
        assert (trial.best, trial.last) == (s.checkpoint(5, "best"), None)


# --- 1. an apply is one transaction


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param(s.measured(0, "a", 1), id="an epoch measured twice"),
        pytest.param(s.plan([5]), id="a plan with a gap"),
        pytest.param(s.started(9, "b"), id="a trial that is not there"),
        pytest.param(s.started(1, "a"), id="a token used twice"),
    ],
)
def test_an_apply_that_fails_in_its_middle_leaves_nothing(
    ledger: SqlLedger, database: str, failing: StudyEvent
) -> None:
    ledger.apply(s.UID, [s.plan([0, 1]), s.started(0, "a"), s.measured(0, "a", 1)])
    before, counts = ledger.trials(s.UID), rows(database)
    good: list[StudyEvent] = [
        s.plan([2]),
        s.measured(0, "a", 2),
        s.published(0, "a", 2),
        s.noted(0, "x"),
    ]
    with pytest.raises((sa.exc.SQLAlchemyError, ValueError)):
        ledger.apply(s.UID, [*good, failing, s.ended(0, "a")])
    assert ledger.trials(s.UID) == before
    assert rows(database) == counts
    assert ledger.apply(s.UID, good) == 0  # the same connection works on


def test_an_apply_of_nothing_writes_nothing(ledger: SqlLedger, database: str) -> None:
    before = rows(database)
    assert ledger.apply(s.UID, []) == 0
    assert rows(database) == before


def test_planned_trials_are_numbered_without_gaps(ledger: SqlLedger) -> None:
    ledger.apply(s.UID, [s.plan([0, 1, 2])])
    for wrong in ([4], [2], [3, 5], [0]):
        with pytest.raises(ValueError, match="numbered from 3 without gaps"):
            ledger.apply(s.UID, [s.plan(wrong)])
    ledger.apply(s.UID, [s.plan([3]), s.plan([4, 5])])
    assert [trial.number for trial in ledger.trials(s.UID)] == [0, 1, 2, 3, 4, 5]


def test_two_studies_number_their_trials_apart(ledger: SqlLedger) -> None:
    ledger.create_study(s.new_study("other", uid="other"))
    ledger.apply(s.UID, [s.plan([0, 1])])
    ledger.apply("other", [s.plan([0]), s.started(0, "b")])
    assert [trial.number for trial in ledger.trials(s.UID)] == [0, 1]
    assert [trial.state for trial in ledger.trials("other")] == [TrialState.RUNNING]
    assert [dict(row.counts) for row in ledger.studies()] == [
        {TrialState.WAITING: 2},
        {TrialState.RUNNING: 1},
    ]


# --- what was written is read


@pytest.mark.parametrize(
    "state", [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL], ids=str
)
def test_every_field_of_an_ended_trial_comes_back(ledger: SqlLedger, state: TrialState) -> None:
    began, later = "2026-03-01T12:00:00+00:00", "2026-03-01T12:00:01.500001+00:00"
    failure = FailureKind.OOM if state is TrialState.FAIL else None
    digest, value, best_epoch = ("ab" * 32, 1 / 3, 2) if failure is None else (None, None, None)
    plan = s.planned(0, lr=3e-4, batch_size=256, optimizer="lion", nesterov=True)
    epochs = (s.measurement(1, 0.75, val_accuracy=0.1), s.measurement(2, 1 / 3, val_accuracy=1.0))
    prune = Decision(action=Action.PRUNE, reason="worse")
    ledger.apply(
        s.UID,
        [
            dataclasses.replace(s.plan([]), trials=(plan,)),
            s.started(0, "a", at=began),
            dataclasses.replace(s.measured(0, "a", 1), measurement=epochs[0]),
            s.published(0, "a", 1, "best"),
            s.published(0, "a", 1, "last"),
            dataclasses.replace(s.measured(0, "a", 2, decision=prune), measurement=epochs[1]),
            s.published(0, "a", 2, "best"),
            s.published(0, "a", 2, "last"),
            s.ended(
                0,
                "a",
                state,
                value=value,
                reason="reason: a, b",
                failure=failure,
                best_epoch=best_epoch,
                weights_sha256=digest,
                at=later,
            ),
        ],
    )
    assert ledger.trials(s.UID) == (
        Trial(
            plan=plan,
            state=state,
            reason="reason: a, b",
            failure=failure,
            measurements=epochs,
            value=value,
            best_epoch=best_epoch,
            last=s.checkpoint(2, "last"),
            best=s.checkpoint(2, "best"),
            weights_sha256=digest,
            num_attempts=1,
            token=None,
            started_at=began,
            ended_at=later,
        ),
    )
    read = ledger.trials(s.UID)[0].plan.params
    assert [type(value) for value in read.values()] == [float, int, str, bool]


def test_a_trial_that_never_measured_ends_without_a_value(ledger: SqlLedger) -> None:
    ledger.apply(
        s.UID, [s.plan([0]), s.started(0, "a"), s.ended(0, "a", TrialState.FAIL, value=None)]
    )
    trial = ledger.trials(s.UID)[0]
    assert (trial.state, trial.value, trial.measurements) == (TrialState.FAIL, None, ())


def test_a_failed_trial_has_no_value_since_optuna_takes_none(ledger: SqlLedger) -> None:
    ledger.apply(s.UID, [s.plan([0]), s.started(0, "a"), s.measured(0, "a", 1)])
    with pytest.raises(ValueError, match="a failed trial has no value"):
        ledger.apply(s.UID, [s.ended(0, "a", TrialState.FAIL, value=0.5)])
    assert ledger.trials(s.UID)[0].state is TrialState.RUNNING


def test_an_interrupted_trial_waits_and_its_next_attempt_goes_on(ledger: SqlLedger) -> None:
    later = "2026-03-01T13:00:00+00:00"
    ledger.apply(
        s.UID,
        [
            s.plan([0]),
            s.started(0, "a"),
            s.measured(0, "a", 1),
            s.published(0, "a", 1),
            s.interrupted(0, "a"),
        ],
    )
    waiting = ledger.trials(s.UID)[0]
    assert (waiting.state, waiting.token, waiting.num_attempts) == (TrialState.WAITING, None, 1)
    assert waiting.last == s.checkpoint(1)
    ledger.apply(s.UID, [s.started(0, "b", attempt=2, at=later), s.measured(0, "b", 2)])
    running = ledger.trials(s.UID)[0]
    assert (running.state, running.token, running.num_attempts) == (TrialState.RUNNING, "b", 2)
    assert running.started_at == s.AT
    assert running.num_epochs == 2
    first, second = ledger.attempts(s.UID, 0)
    assert first == Attempt(
        number=1,
        token="a",  # noqa: S106  # names an attempt
        device="cpu",
        num_threads=2,
        environment=s.ENVIRONMENT,
        started_at=s.AT,
        ended_at=s.AT,
        outcome="stopped",
    )
    assert second == dataclasses.replace(
        first,
        number=2,
        token="b",  # noqa: S106
        started_at=later,
        ended_at=None,
        outcome=None,
    )


def test_what_a_study_is_made_from_comes_back(ledger: SqlLedger) -> None:
    study = s.new_study()
    row = ledger.studies()[0]
    assert (row.uid, row.name, row.document, row.source, row.created_at) == (
        study.uid,
        study.name,
        study.document,
        study.source,
        study.created_at,
    )
    assert (row.state, row.ended_at, row.running_s) == (StudyState.STOPPED, None, 0.0)


def test_a_studys_state_is_kept_and_a_new_run_takes_back_its_end(ledger: SqlLedger) -> None:
    ledger.apply(s.UID, [s.study_state(StudyState.FAILED, running_s=12.5)])
    row = ledger.studies()[0]
    assert (row.state, row.reason, row.ended_at, row.running_s) == (
        StudyState.FAILED,
        "because",
        s.AT,
        12.5,
    )
    ledger.apply(s.UID, [s.study_state(StudyState.RUNNING, running_s=12.5)])
    row = ledger.studies()[0]
    assert (row.state, row.ended_at) == (StudyState.RUNNING, None)


def test_a_name_is_given_once(ledger: SqlLedger) -> None:
    with pytest.raises(UsageError, match="lr-digits exists"):
        ledger.create_study(s.new_study(uid="another"))
    assert len(ledger.studies()) == 1


def test_a_larger_sweep_replaces_the_smaller(ledger: SqlLedger) -> None:
    ledger.extend_study(s.UID, "{}", "# larger", {})
    row = ledger.studies()[0]
    assert (row.document, row.source, row.name) == ("{}", "# larger", "lr-digits")


def test_a_stop_that_was_asked_for_outlives_a_change_of_state(ledger: SqlLedger) -> None:
    assert not ledger.is_stop_requested(s.UID)
    ledger.request_stop(s.UID, s.AT)
    assert ledger.is_stop_requested(s.UID)
    assert ledger.studies()[0].is_stop_requested
    ledger.request_stop(s.UID, None)
    assert not ledger.is_stop_requested(s.UID)
    ledger.request_stop(s.UID, s.AT)
    ledger.apply(s.UID, [s.study_state(StudyState.RUNNING)])
    assert ledger.is_stop_requested(s.UID)  # asked for while the study was being prepared


def test_notes_are_kept_by_trial_in_order(ledger: SqlLedger) -> None:
    ledger.apply(s.UID, [s.plan([0, 1])])
    ledger.apply(s.UID, [s.noted(1, "first"), s.noted(1, "second"), s.noted(0, "third")])
    assert ledger.notes(s.UID) == {1: ("first", "second"), 0: ("third",)}


def test_a_newer_test_result_of_a_configuration_replaces_the_older(ledger: SqlLedger) -> None:
    assert ledger.test_result(s.UID, "abc") is None
    ledger.store_test_result(s.UID, "abc", '{"test_loss": 1}', s.AT)
    ledger.store_test_result(s.UID, "abc", '{"test_loss": 0}', s.AT)
    assert ledger.test_result(s.UID, "abc") == '{"test_loss": 0}'
    assert ledger.test_result(s.UID, "other") is None


# --- 2. what apply returned from survives


def test_everything_acknowledged_survives_a_writer_killed_at_any_moment(database: str) -> None:
    with ledger_process("write", database) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(25)]
        writer.kill()
        acknowledged += [int(line) for line in writer.stdout.read().split()]
    ledger = SqlLedger(database)
    for trial in ledger.trials(s.UID):
        epochs = [measurement.epoch for measurement in trial.measurements]
        assert epochs == list(range(1, len(epochs) + 1))
        assert acknowledged[-1] <= len(epochs) <= acknowledged[-1] + 1
        assert trial.state is TrialState.RUNNING
    # and whoever comes next can write
    assert ledger.apply(s.UID, [s.interrupted(n, f"token-{n}") for n in (0, 1)]) == 0
    ledger.close()


def test_eight_processes_may_open_a_fresh_ledger_at_once(databases: Databases) -> None:
    database = databases.empty()
    openers = [ledger_process("open", database) for _ in range(8)]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    for opener in openers:
        with opener:
            out, _ = opener.communicate(timeout=60)
        assert (opener.returncode, out) == (0, "0\n")
    assert rows(database)["hpo_version"] == 1


def ledger_process(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.contracts.ledger_process", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# --- 3. late events


def late_events(token: str) -> list[StudyEvent]:
    return [
        s.measured(0, token, 2, val_loss=9.0),
        s.published(0, token, 2),
        s.interrupted(0, token),
        s.ended(0, token, value=9.0),
    ]


def test_events_of_a_revoked_attempt_change_nothing_and_are_counted(
    ledger: SqlLedger, database: str
) -> None:
    ledger.apply(
        s.UID,
        [
            s.plan([0]),
            s.started(0, "old"),
            s.measured(0, "old", 1),
            s.interrupted(0, "old"),
            s.started(0, "new", attempt=2),
        ],
    )
    trials, attempts, counts = ledger.trials(s.UID), ledger.attempts(s.UID, 0), rows(database)
    assert ledger.apply(s.UID, late_events("old")) == 4
    assert ledger.trials(s.UID) == trials
    assert ledger.attempts(s.UID, 0) == attempts
    assert rows(database) == counts


def test_an_ended_trial_hears_nothing_more(ledger: SqlLedger) -> None:
    ledger.apply(s.UID, [s.plan([0]), s.started(0, "a"), s.measured(0, "a", 1), s.ended(0, "a")])
    before = ledger.trials(s.UID)
    assert ledger.apply(s.UID, late_events("a")) == 4
    assert ledger.trials(s.UID) == before


def test_a_late_event_among_good_ones_spoils_none_of_them(ledger: SqlLedger) -> None:
    ledger.apply(s.UID, [s.plan([0, 1]), s.started(0, "a"), s.started(1, "b")])
    events = [s.measured(0, "a", 1), s.measured(1, "a", 1), s.measured(1, "b", 1)]
    assert ledger.apply(s.UID, events) == 1
    assert [trial.num_epochs for trial in ledger.trials(s.UID)] == [1, 1]


# --- 4. readers and writers do not disturb each other


def test_an_open_reader_does_not_hold_up_a_writer_and_sees_one_moment(
    ledger: SqlLedger, database: str
) -> None:
    ledger.apply(s.UID, [s.plan([0]), s.started(0, "a")])
    engine = sa.create_engine(database, isolation_level="SERIALIZABLE", poolclass=sa.NullPool)
    query = sa.text("SELECT count(*) FROM hpo_measurements")
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":  # its driver begins no transaction to read in
            connection.exec_driver_sql("BEGIN")
        assert connection.execute(query).scalar_one() == 0
        ledger.apply(s.UID, [s.measured(0, "a", 1), s.ended(0, "a")])  # returns at once
        assert connection.execute(query).scalar_one() == 0
    with engine.connect() as connection:
        assert connection.execute(query).scalar_one() == 1


def test_a_second_connection_never_sees_half_of_an_apply(ledger: SqlLedger, database: str) -> None:
    ledger.apply(s.UID, [s.plan([0, 1]), s.started(0, "a"), s.started(1, "b")])
    reader = SqlLedger(database)
    seen: list[Sequence[int]] = []
    is_written = threading.Event()

    def read() -> None:
        while not is_written.is_set():
            seen.append([trial.num_epochs for trial in reader.trials(s.UID)])

    thread = threading.Thread(target=read)
    thread.start()
    epoch = 0
    while epoch < 60 or len({first for first, _ in seen}) <= 3:  # until it did read in between
        epoch += 1
        ledger.apply(s.UID, [s.measured(0, "a", epoch), s.measured(1, "b", epoch)])
    is_written.set()
    thread.join()
    assert all(first == second for first, second in seen)
    assert [trial.num_epochs for trial in reader.trials(s.UID)] == [epoch, epoch]
    reader.close()


def test_two_studies_may_start_under_one_new_environment_at_once(
    ledger: SqlLedger, database: str
) -> None:
    other = SqlLedger(database)
    other.create_study(s.new_study("other", uid="other"))
    rounds = range(15)
    ledgers = {s.UID: ledger, "other": other}
    for uid, each in ledgers.items():
        each.apply(uid, [s.plan(rounds)])
    with ThreadPoolExecutor(2) as pool:
        for number in rounds:
            environment = dataclasses.replace(s.ENVIRONMENT, code_digest=str(number))
            starts = [
                pool.submit(
                    each.apply,
                    uid,
                    [
                        dataclasses.replace(
                            s.started(number, f"{uid} {number}"), environment=environment
                        )
                    ],
                )
                for uid, each in ledgers.items()
            ]
            assert [start.result() for start in starts] == [0, 0]
    assert rows(database)["hpo_environments"] == len(rounds)
    other.close()


# --- deletion


def test_a_deleted_study_leaves_no_row_in_any_table(ledger: SqlLedger, database: str) -> None:
    ledger.create_study(s.new_study("gone", uid="gone"))
    ledger.delete_study("gone")
    empty = rows(database)
    ledger.create_study(s.new_study("gone", uid="gone"))
    ledger.apply(
        "gone",
        [
            s.plan([0, 1, 2]),
            s.started(0, "a"),
            s.measured(0, "a", 1),
            s.published(0, "a", 1, "best"),
            s.published(0, "a", 1, "last"),
            s.noted(0, "a remark"),
            s.ended(0, "a"),
            s.started(1, "b"),
            s.ended(1, "b", TrialState.FAIL, value=None),
            s.study_state(StudyState.FINISHED),
        ],
    )
    ledger.store_test_result("gone", "abc", "{}", s.AT)
    filled = {name for name, count in rows(database).items() if count > empty[name]}
    assert len(filled) > 10
    ledger.delete_study("gone")
    assert rows(database) == empty
    assert [row.name for row in ledger.studies()] == ["lr-digits"]


def test_deleting_a_study_leaves_every_other_whole(ledger: SqlLedger, database: str) -> None:
    ledger.create_study(s.new_study("other", uid="other"))
    for uid, token in ((s.UID, "a"), ("other", "b")):
        ledger.apply(uid, [s.plan([0]), s.started(0, token), s.measured(0, token, 1)])
    kept, attempts = ledger.trials(s.UID), ledger.attempts(s.UID, 0)
    ledger.delete_study("other")
    assert ledger.trials(s.UID) == kept
    assert ledger.attempts(s.UID, 0) == attempts
    assert attempts[0].environment == s.ENVIRONMENT  # which both had
    ledger.create_study(s.new_study("other", uid="again"))
    assert ledger.trials("again") == ()


# --- opening


def test_a_ledger_of_another_version_is_refused(ledger: SqlLedger, database: str) -> None:
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE hpo_version SET version = 99"))
    with pytest.raises(UsageError, match="ledger version 99, this hpo reads version"):
        SqlLedger(database)


def test_a_ledger_of_the_first_version_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "hpo.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST_VERSION.read_text())
    ledger = SqlLedger(f"sqlite:///{path}")
    done, going_on, failed, waiting = ledger.trials(s.UID)
    assert (done.state, done.value, done.num_epochs) == (TrialState.COMPLETE, 0.5, 2)
    assert (done.last, done.best) == (s.checkpoint(1), s.checkpoint(1, "best"))
    assert (going_on.token, going_on.num_attempts, going_on.num_epochs) == ("d", 2, 1)
    assert (failed.failure, waiting.state) == (FailureKind.DIVERGED, TrialState.WAITING)
    assert ledger.notes(s.UID) == {1: ("a remark",)}
    assert ledger.test_result(s.UID, "abc") == "{}"
    assert ledger.apply(s.UID, [s.measured(1, "d", 2), s.ended(1, "d"), s.plan([4])]) == 0
    ledger.close()
    assert rows(f"sqlite:///{path}")["hpo_version"] == 1
    SqlLedger(f"sqlite:///{path}").close()  # migrated once


def test_a_network_file_system_is_refused_before_a_file_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "network_filesystem", lambda _: "nfs4")
    with pytest.raises(UsageError, match=r"\(nfs4\).*PostgreSQL database in HPO_LEDGER"):
        SqlLedger(f"sqlite:///{tmp_path / 'hpo.db'}")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "hpo.db"
    path.write_text("no database at all\n" * 100)
    with pytest.raises(UsageError, match="cannot be opened"):
        SqlLedger(f"sqlite:///{path}")
    assert path.read_text().startswith("no database")


def test_a_password_is_in_no_error(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="install hpo[postgres]")
    url = f"postgresql+psycopg://hpo:geheim@/hpo?host={tmp_path}"
    with pytest.raises(UsageError) as refusal:
        SqlLedger(url)
    assert "geheim" not in str(refusal.value)
