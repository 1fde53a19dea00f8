"""Promise 6 of the ledger: a server that drops its connections costs no event and doubles none."""

import dataclasses
import threading
from collections.abc import Callable, Iterator

import optuna
import pytest
import sqlalchemy as sa
from optuna.exceptions import StorageInternalError

from hpo.domain.event import StudyEvent
from hpo.domain.study import StudyState
from hpo.errors import HpoError
from hpo.storage.ledger import Owner
from hpo.storage.optuna_storage import OptunaStorage
from hpo.storage.sql_ledger import SqlLedger
from hpo.storage.writer import Session
from tests.contracts.test_ledger import rows
from tests.fakes import studies as s
from tests.fakes.clock import FakeClock

OTHERS = sa.text(
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)

TURNS: tuple[list[StudyEvent], ...] = (
    [s.study_state(StudyState.RUNNING)],
    [s.plan([0, 1])],
    [s.started(0, "a"), s.started(1, "b")],
    [s.measured(0, "a", 1), s.published(0, "a", 1), s.noted(0, "said once")],
    [s.measured(1, "late", 1), s.measured(1, "b", 1)],
    [s.noted(1, "said twice"), s.noted(1, "said twice")],
    [s.ended(0, "a"), s.interrupted(1, "b"), s.plan([2])],
    [s.study_state(StudyState.STOPPED)],
)
"""Applies of every kind of event; one of them has a late one."""


class Server:
    """What an administrator does to the ledger's server."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")

    def drop_all(self) -> int:
        """End every other session of the database; return how many there were."""
        with self._engine.connect() as connection:
            count: int = connection.execute(OTHERS).scalar_one()
        return count

    def num_sessions(self) -> int:
        query = sa.text(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with self._engine.connect() as connection:
            count: int = connection.execute(query).scalar_one()
        return count


@pytest.fixture
def admin(server: str) -> Server:
    """Return the administrator of the server."""
    return Server(server)


@pytest.fixture
def ledger(server: str) -> Iterator[SqlLedger]:
    """Return a ledger with one study that has no trials."""
    ledger = SqlLedger(server, FakeClock())
    ledger.create_study(s.new_study())
    yield ledger
    ledger.close()


def commit_and_drop(admin: Server) -> Callable[[Session], None]:
    """Commit, and lose the connection before the answer arrives."""

    def commit(session: Session) -> None:
        session.execute("COMMIT")
        admin.drop_all()
        session.execute("SELECT 1")

    return commit


def drop(admin: Server) -> Callable[[Session], None]:
    """Lose the connection before the commit is sent."""

    def commit(session: Session) -> None:
        admin.drop_all()
        session.execute("COMMIT")

    return commit


def fail_once(patch: pytest.MonkeyPatch, fault: Callable[[Session], None]) -> None:
    """Let the next commit go wrong, and none after it."""
    whole, faults = Session.commit, iter([fault])

    def commit(session: Session) -> None:
        next(faults, whole)(session)

    patch.setattr(Session, "commit", commit)


@pytest.mark.parametrize("fault", [commit_and_drop, drop])
def test_an_apply_is_written_exactly_once_wherever_its_connection_is_lost(
    ledger: SqlLedger,
    admin: Server,
    server: str,
    fault: Callable[[Server], Callable[[Session], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger.create_study(s.new_study("calm", uid="calm"))
    for events in TURNS:
        calm = [rename(event) for event in events]
        num_late = ledger.apply("calm", calm)
        before = rows(server)
        with monkeypatch.context() as patch:
            fail_once(patch, fault(admin))
            assert ledger.apply(s.UID, events) == num_late
        grown = {name: count - before[name] for name, count in rows(server).items()}
        assert sum(grown.values()) == expected_growth(events)
    trials = ledger.trials(s.UID)
    assert [(t.state, t.num_epochs, t.reason) for t in trials] == [
        (t.state, t.num_epochs, t.reason) for t in ledger.trials("calm")
    ]
    assert ledger.notes(s.UID) == {0: ("said once",), 1: ("said twice", "said twice")}


def rename(event: StudyEvent) -> StudyEvent:
    """Return the event with a token of its own, since tokens are of one study each."""
    token = getattr(event, "token", None)
    if token is None:
        return event
    renamed: StudyEvent = dataclasses.replace(  # those that have a token
        event,
        token=f"calm {token}",  # type: ignore[arg-type]
    )
    return renamed


def expected_growth(events: list[StudyEvent]) -> int:
    """Return how many rows an apply adds to all tables, the mark of the first one counted."""
    per_kind = {
        "TrialsPlanned": lambda e: len(e.trials) * (2 + 4 + 4),  # trials, params, attributes
        "AttemptStarted": lambda _: 1,
        "Measured": lambda e: 0 if e.token == "late" else 2,  # noqa: S105
        "CheckpointPublished": lambda _: 1,
        "Noted": lambda _: 1,
        "TrialEnded": lambda _: 1,
        "StudyStateChanged": lambda e: e.state is StudyState.RUNNING,  # the first apply's mark
    }
    return sum(per_kind.get(type(e).__name__, lambda _: 0)(e) for e in events)


def test_reading_goes_on_over_a_new_connection(ledger: SqlLedger, admin: Server) -> None:
    ledger.apply(s.UID, [s.plan([0])])
    assert admin.drop_all() >= 1
    assert len(ledger.trials(s.UID)) == 1
    admin.drop_all()
    assert not ledger.is_stop_requested(s.UID)
    admin.drop_all()
    ledger.request_stop(s.UID, s.AT)
    assert ledger.studies()[0].is_stop_requested


def test_a_study_goes_on_while_its_sessions_are_killed_all_the_time(
    ledger: SqlLedger, admin: Server
) -> None:
    ledger.apply(s.UID, [s.plan([0]), s.started(0, "a")])
    is_over = threading.Event()
    peak = [0]

    def kill() -> None:
        while not is_over.wait(0.02):
            peak[0] = max(peak[0], admin.num_sessions())
            admin.drop_all()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with ledger.own("lr-digits", Owner(host="here", pid=1)):
            for epoch in range(1, 151):
                assert (
                    ledger.apply(s.UID, [s.measured(0, "a", epoch), s.noted(0, str(epoch))]) == 0
                )
                ledger.is_stop_requested(s.UID)
    finally:
        is_over.set()
        killer.join()
    epochs = [measurement.epoch for measurement in ledger.trials(s.UID)[0].measurements]
    assert epochs == list(range(1, 151))
    assert ledger.notes(s.UID)[0] == tuple(map(str, epochs))
    assert 1 <= peak[0] <= 3


@pytest.mark.parametrize("fault", [commit_and_drop, drop])
def test_optunas_own_writes_survive_a_lost_connection_too(
    admin: Server,
    server: str,
    fault: Callable[[Server], Callable[[Session], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = OptunaStorage(server)
    study = optuna.create_study(storage=storage)
    trial = study.ask()
    for write in (
        lambda: trial.suggest_float("x", 0, 1),
        lambda: trial.report(0.5, 1),
        lambda: trial.set_user_attr("key", "value"),
        lambda: study.tell(trial, 1.0),
    ):
        with monkeypatch.context() as patch:
            fail_once(patch, fault(admin))
            write()
    [ended] = study.get_trials()
    assert (ended.value, ended.intermediate_values) == (1.0, {1: 0.5})
    assert (list(ended.params), ended.user_attrs) == (["x"], {"key": "value"})
    with monkeypatch.context() as patch:
        fail_once(patch, fault(admin))
        with pytest.raises(StorageInternalError, match="while a trial was created"):
            study.ask()
    storage.close()


def test_a_server_that_stays_away_is_given_up_with_one_sentence(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.apply(s.UID, [s.plan([0])])

    def refuse(*_: object) -> None:
        import psycopg

        raise sa.exc.OperationalError("", None, psycopg.OperationalError("refused"))

    ledger._writer.close()
    monkeypatch.setattr(ledger._engine, "raw_connection", refuse)
    with pytest.raises(HpoError, match=r"does not answer: refused; the study can be resumed"):
        ledger.apply(s.UID, [s.started(0, "a")])
