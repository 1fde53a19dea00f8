"""One process at a time conducts a study."""

import os
import threading
from pathlib import Path

import pytest

from hpo.errors import OwnedError
from hpo.study.ownership import own, owner_of


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
