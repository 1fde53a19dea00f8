import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from hpo.export.bundle import FORMAT, MANIFEST, ExportError
from hpo.export.publication import check_destination, publish_folder, staging


def bundle_like(folder: Path, words: str) -> Path:
    folder.mkdir()
    (folder / MANIFEST).write_text(f'{{\n  "format": "{FORMAT}"\n}}\n')
    (folder / "README.md").write_text(words)
    return folder


def publish(destination: Path, words: str, check: Callable[[Path], None]) -> None:
    with staging(destination) as folder:
        publish_folder(bundle_like(folder / "bundle", words), destination, check)


def accept(folder: Path) -> None:
    assert (folder / "README.md").read_text() == "new"


def refuse(folder: Path) -> None:
    accept(folder)
    raise ExportError("no")


@pytest.fixture(params=["one step", "three steps"])
def _steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "three steps":
        monkeypatch.setattr(ctypes, "CDLL", lambda _: object())  # as where libc has no call


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "best"


@pytest.mark.usefixtures("_steps")
def test_a_bundle_is_replaced(destination: Path) -> None:
    destination.parent.mkdir()
    bundle_like(destination, "old")
    publish(destination, "new", accept)
    assert (destination / "README.md").read_text() == "new"
    assert list(destination.parent.iterdir()) == [destination]


@pytest.mark.usefixtures("_steps")
def test_a_bundle_is_back_when_the_new_one_does_not_pass(destination: Path) -> None:
    destination.parent.mkdir()
    bundle_like(destination, "old")
    with pytest.raises(ExportError):
        publish(destination, "new", refuse)
    assert (destination / "README.md").read_text() == "old"
    assert list(destination.parent.iterdir()) == [destination]


def test_nothing_is_there_when_the_first_one_does_not_pass(destination: Path) -> None:
    with pytest.raises(ExportError):
        publish(destination, "new", refuse)
    assert list(destination.parent.iterdir()) == []


def test_an_empty_folder_is_used(destination: Path) -> None:
    destination.mkdir(parents=True)
    publish(destination, "new", accept)
    assert (destination / "README.md").read_text() == "new"


def make_file(path: Path) -> None:
    path.write_text("mine")


def make_link(path: Path) -> None:
    path.symlink_to(path.parent)


def make_folder(path: Path) -> None:
    path.mkdir()
    (path / "thesis.tex").write_text("mine")


def make_bundle_with_more(path: Path) -> None:
    (bundle_like(path, "old") / "notes.txt").write_text("mine")


def make_strange_manifest(path: Path) -> None:
    path.mkdir()
    (path / MANIFEST).write_text('{"name": "an app"}')


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_file, "it is a file"),
        (make_link, "it is a link"),
        (make_folder, "it holds thesis.tex, which no bundle does"),
        (make_bundle_with_more, "it holds notes.txt, which no bundle does"),
        (make_strange_manifest, "it has no manifest.json of a bundle"),
    ],
)
def test_what_is_not_ours_is_not_replaced(
    make: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    destination = tmp_path / "best"
    make(destination)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ExportError, match=f"is not replaced: {reason}; name another folder"):
        check_destination(destination)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(ExportError, match="cannot be written"),
        staging(tmp_path / "file" / "best"),
    ):
        pass
