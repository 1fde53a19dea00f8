import shutil
import threading
from pathlib import Path

import pytest

from tracking.digest import changed_files, source_digest, store_sources, stored_digest


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "model"
    (folder / "layers").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "layers" / "conv.py").write_text("KERNEL = 3\n")
    (folder / "notes.txt").write_text("not code")
    return folder


def test_the_digest_does_not_depend_on_where_the_folder_lies(
    package: Path, tmp_path: Path
) -> None:
    elsewhere = Path(shutil.copytree(package, tmp_path / "elsewhere" / "model"))
    assert source_digest([package]) == source_digest([elsewhere])
    assert len(source_digest([package])) == 64


@pytest.mark.parametrize(
    "name", ["__pycache__/conv.py", ".hidden/a.py", "layers/__pycache__/x.py", "other.txt"]
)
def test_what_is_not_source_does_not_count(package: Path, name: str) -> None:
    before = source_digest([package])
    (package / name).parent.mkdir(exist_ok=True)
    (package / name).write_text("x = 1")
    assert source_digest([package]) == before


def test_a_virtual_environment_inside_does_not_count(package: Path) -> None:
    before = source_digest([package])
    (package / "env").mkdir()
    (package / "env" / "pyvenv.cfg").write_text("")
    (package / "env" / "torch.py").write_text("x = 1")
    assert source_digest([package]) == before


def test_any_edit_rename_or_move_of_text_changes_the_digest(package: Path) -> None:
    digests = {source_digest([package])}
    conv = package / "layers" / "conv.py"
    conv.write_text("KERNEL = 5\n")
    digests.add(source_digest([package]))
    conv.rename(package / "layers" / "convolution.py")
    digests.add(source_digest([package]))
    (package / "new.py").write_text("")
    digests.add(source_digest([package]))
    assert len(digests) == 4


def test_a_stored_copy_is_named_by_its_digest_and_holds_the_sources(
    package: Path, tmp_path: Path
) -> None:
    root = tmp_path / "sources"
    digest = store_sources([package], root)
    assert digest == source_digest([package]) == stored_digest(root / digest)
    assert (root / digest / "model" / "layers" / "conv.py").read_text() == "KERNEL = 3\n"
    assert store_sources([package], root) == digest
    assert [path.name for path in root.iterdir()] == [digest]


def test_a_damaged_copy_is_replaced(package: Path, tmp_path: Path) -> None:
    root = tmp_path / "sources"
    digest = store_sources([package], root)
    (root / digest / "model" / "layers" / "conv.py").write_text("KERNEL = 7\n")
    assert store_sources([package], root) == digest
    assert stored_digest(root / digest) == digest
    assert [path.name for path in root.iterdir()] == [digest]


def test_two_that_store_at_once_leave_one_whole_copy(package: Path, tmp_path: Path) -> None:
    root = tmp_path / "sources"
    threads = [threading.Thread(target=store_sources, args=([package], root)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    digest = source_digest([package])
    assert [path.name for path in root.iterdir()] == [digest]
    assert stored_digest(root / digest) == digest


def test_every_change_since_is_named(package: Path, tmp_path: Path) -> None:
    stored = tmp_path / "sources" / store_sources([package], tmp_path / "sources")
    assert changed_files(stored, [package]) == []
    (package / "layers" / "conv.py").write_text("KERNEL = 5\n")
    (package / "__init__.py").unlink()
    (package / "new.py").write_text("")
    assert changed_files(stored, [package]) == [
        "removed: model/__init__.py",
        "edited: model/layers/conv.py",
        "added: model/new.py",
    ]


def test_folders_that_would_mix_or_are_missing_are_refused(package: Path, tmp_path: Path) -> None:
    twin = tmp_path / "twin" / "model"
    twin.mkdir(parents=True)
    with pytest.raises(ValueError, match="two source folders are named model"):
        source_digest([package, twin])
    with pytest.raises(FileNotFoundError, match="no folder of Python files"):
        source_digest([tmp_path / "nothing"])
