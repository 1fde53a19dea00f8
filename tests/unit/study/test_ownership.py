"""One process at a time conducts a study."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from hpo.errors import OwnedError
from hpo.storage.ledger import Ledger, Owner
from hpo.study.home import Home
from hpo.study.ownership import own, own_study, owner_of, owner_of_study


def test_an_owner_is_named_and_refuses_another_until_it_leaves(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "lr.lock"
    assert owner_of(path) is None
    with own(path, "lr"):
        assert owner_of(path) == str(os.getpid())
        with (
            pytest.raises(OwnedError, match=f"lr is being run by process {os.getpid()}"),
            own(path, "lr"),
        ):
            pass
    assert owner_of(path) is None
    with own(path, "lr"):
        pass


def test_whoever_looks_for_the_owner_keeps_nobody_from_becoming_it(tmp_path: Path) -> None:
    path = tmp_path / "lr.lock"
    path.touch()
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            owner_of(path)

    viewer = threading.Thread(target=look)
    viewer.start()
    try:
        for _ in range(100):
            with own(path, "lr"):
                pass
    finally:
        is_over.set()
        viewer.join()


class OneLedger:
    """A ledger that knows one owner elsewhere, as far as ownership asks it."""

    def __init__(self, elsewhere: Owner | None = None) -> None:
        self.elsewhere = elsewhere
        self.owners: list[Owner] = []

    @contextlib.contextmanager
    def own(self, study: str, owner: Owner) -> Iterator[None]:
        if self.elsewhere is not None:
            raise OwnedError(f"{study} is being run by process {self.elsewhere}")
        self.owners.append(owner)
        yield
        self.owners.pop()

    def owner_of(self, study: str) -> Owner | None:
        return self.elsewhere


def test_a_study_is_owned_on_this_machine_and_in_its_ledger(tmp_path: Path) -> None:
    home, ledger = Home(tmp_path), OneLedger()
    with own_study(home, "lr", cast("Ledger", ledger)):
        assert ledger.owners == [Owner(host=socket.gethostname(), pid=os.getpid())]
        assert owner_of_study(home, "lr", cast("Ledger", ledger)) == str(os.getpid())
        with (
            pytest.raises(OwnedError, match=f"process {os.getpid()};"),
            own_study(home, "lr", cast("Ledger", ledger)),
        ):
            pass
    assert ledger.owners == []
    assert owner_of_study(home, "lr", cast("Ledger", ledger)) is None


def test_an_owner_on_another_host_is_named_and_leaves_the_file_free(tmp_path: Path) -> None:
    home, ledger = Home(tmp_path), cast("Ledger", OneLedger(Owner(host="far", pid=7)))
    assert owner_of_study(home, "lr", ledger) == "7 on far"
    with pytest.raises(OwnedError, match="7 on far"), own_study(home, "lr", ledger):
        pass
    assert owner_of(home.owner_lock("lr")) is None


def test_two_homes_on_one_sqlite_ledger_have_one_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = Home(tmp_path / "a").owner_lock("lr")
    assert alone == tmp_path / "a" / "locks" / "lr.lock"
    monkeypatch.setenv("HPO_LEDGER", f"sqlite:///{tmp_path / 'team' / 'hpo.db'}")
    locks = {Home(tmp_path / name).owner_lock("lr") for name in ("a", "b")}
    assert locks == {tmp_path / "team" / "locks" / "lr.lock"}
    monkeypatch.setenv("HPO_LEDGER", "postgresql+psycopg://team/hpo")
    assert Home(tmp_path / "a").owner_lock("lr") == alone
