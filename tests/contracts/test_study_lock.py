"""Promise 7 of the ledger: one process at a time, on whatever host, owns a study."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from hpo.errors import OwnedError
from hpo.storage.ledger import Owner
from hpo.storage.sql_ledger import SqlLedger
from tests.contracts.test_dropped_connections import Server
from tests.contracts.test_ledger import ledger_process
from tests.fakes import studies as s

HERE, THERE = Owner(host="here", pid=11), Owner(host="there", pid=22)
STUDY = "lr-digits"


@pytest.fixture
def ledger(server: str) -> Iterator[SqlLedger]:
    """Return a ledger with one study."""
    ledger = SqlLedger(server)
    ledger.create_study(s.new_study())
    yield ledger
    ledger.close()


@pytest.fixture
def other(server: str) -> Iterator[SqlLedger]:
    """Return the same ledger, opened by another host."""
    other = SqlLedger(server)
    yield other
    other.close()


def test_a_second_host_is_refused_and_told_who_owns_the_study(
    ledger: SqlLedger, other: SqlLedger
) -> None:
    assert ledger.owner_of(STUDY) is None
    with ledger.own(STUDY, HERE):
        assert other.owner_of(STUDY) == HERE
        with (
            pytest.raises(OwnedError, match="lr-digits is being run by process 11 on here"),
            other.own(STUDY, THERE),
        ):
            pass
        with other.own("another", THERE):
            assert ledger.owner_of("another") == THERE
    assert other.owner_of(STUDY) is None
    with other.own(STUDY, THERE):
        assert ledger.owner_of(STUDY) == THERE


def test_a_dead_owner_blocks_nobody_and_its_row_is_not_believed(
    ledger: SqlLedger, server: str
) -> None:
    with ledger_process("own", server) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert ledger.owner_of(STUDY) == Owner(host="a-host", pid=pid)
        process.kill()
        process.communicate()
    engine = sa.create_engine(server, poolclass=sa.NullPool)
    with engine.connect() as connection:
        wait = sa.text("SELECT pg_sleep(0.01)")
        locks = sa.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        while connection.execute(locks).scalar_one():  # until the server has noticed
            connection.execute(wait)
        stale = connection.execute(sa.text("SELECT count(*) FROM hpo_owners")).scalar_one()
    assert (stale, ledger.owner_of(STUDY)) == (1, None)
    with ledger.own(STUDY, HERE):
        assert ledger.owner_of(STUDY) == HERE


def test_an_owner_keeps_its_study_over_a_lost_connection(
    ledger: SqlLedger, other: SqlLedger, server: str
) -> None:
    with ledger.own(STUDY, HERE):
        Server(server).drop_all()
        ledger.apply(s.UID, [s.plan([0])])
        assert other.owner_of(STUDY) == HERE
        with pytest.raises(OwnedError), other.own(STUDY, THERE):
            pass
    assert other.owner_of(STUDY) is None


def test_an_owner_leaves_at_once_when_its_connection_is_gone(
    ledger: SqlLedger, other: SqlLedger, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ledger.own(STUDY, HERE):
        Server(server).drop_all()
        monkeypatch.setattr(ledger._engine, "raw_connection", None)  # nothing is opened again
    assert other.owner_of(STUDY) is None


@pytest.mark.parametrize("is_over", [False, True])
def test_an_owner_that_was_replaced_meanwhile_writes_nothing_more(
    ledger: SqlLedger, other: SqlLedger, server: str, is_over: bool
) -> None:
    ledger.apply(s.UID, [s.plan([0]), s.started(0, "a")])
    owning = ledger.own(STUDY, HERE)
    owning.__enter__()
    Server(server).drop_all()
    taking = other.own(STUDY, THERE)
    taking.__enter__()
    other.apply(s.UID, [s.interrupted(0, "a")])
    if is_over:
        taking.__exit__(None, None, None)
    with pytest.raises(OwnedError, match="taken over"):
        ledger.apply(s.UID, [s.plan([1])])
    owning.__exit__(None, None, None)
    assert other.owner_of(STUDY) == (None if is_over else THERE)
    if not is_over:
        taking.__exit__(None, None, None)
    assert len(other.trials(s.UID)) == 1
