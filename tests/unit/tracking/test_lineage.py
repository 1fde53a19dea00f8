import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tracking.lineage import Lineage, git_state, machine_description, package_versions

LINEAGE = Lineage(
    run_key="u/7",
    config={"optimizer": {"lr": 0.1 + 0.2}, "epochs": 3, "name": None},
    source_digest="ab" * 32,
    data_digest=None,
    seeds={"init": 1, "order": 2},
    packages={"python": "3.11.2", "torch": "2.14.1"},
    machine={"processor": "x"},
    settings={"device": "cpu", "num_threads": 1},
    git_revision=None,
    is_git_dirty=False,
)


def test_a_published_lineage_is_read_back_equal(tmp_path: Path) -> None:
    LINEAGE.publish(tmp_path / "7" / "lineage.json")
    assert Lineage.read(tmp_path / "7" / "lineage.json") == LINEAGE


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"v": 1}', "\ud800"])
def test_a_damaged_lineage_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lineage.json"
    path.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(ValueError, match="is not a readable lineage file"):
        Lineage.read(path)


def test_a_lineage_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lineage.json"
    LINEAGE.publish(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"v": 2}))
    with pytest.raises(ValueError, match="version 2, this release reads 1"):
        Lineage.read(path)


def test_every_difference_is_named_and_nothing_else() -> None:
    other = dataclasses.replace(
        LINEAGE,
        run_key="u/8",
        packages={"python": "3.12.0"},
        settings={"device": "cuda", "num_threads": 1},
        data_digest="cd",
    )
    assert LINEAGE.differences(LINEAGE) == []
    assert LINEAGE.differences(other) == [
        "data_digest: None became cd",
        "packages.python: 3.11.2 became 3.12.0",
        "packages.torch: 2.14.1 became absent",
        "settings.device: cpu became cuda",
    ]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    (folder / "a.py").write_text("a = 1\n")
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "one"],
    ):
        subprocess.run(["git", "-C", str(folder), *command], check=True, env=environment)
    return folder


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@needs_git
def test_git_tells_the_revision_and_whether_files_differ(repository: Path) -> None:
    revision, is_dirty = git_state(repository)
    assert revision is not None
    assert len(revision) == 40
    assert not is_dirty
    (repository / "new.py").write_text("")
    assert git_state(repository) == (revision, True)
    (repository / "new.py").unlink()
    (repository / "a.py").write_text("a = 2\n")
    assert git_state(repository) == (revision, True)


@needs_git
def test_a_foreign_git_variable_does_not_mislead(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert git_state(repository)[0] is not None


def test_outside_a_repository_there_is_no_revision(tmp_path: Path) -> None:
    assert git_state(tmp_path) == (None, False)
    assert git_state(tmp_path / "missing") == (None, False)


def test_without_git_there_is_no_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) == (None, False)


def test_versions_and_machine_are_told() -> None:
    assert {"python", "numpy", "torch", "mlflow"} <= package_versions().keys()
    assert machine_description().keys() == {"processor", "num_cores", "os", "architecture"}
    assert all(machine_description().values())


@pytest.mark.parametrize(
    "module",
    ["records", "outbox", "tracker", "sender", "sender_process", "memory", "digest", "lineage"],
)
def test_what_the_conductor_imports_is_light(module: str) -> None:
    code = (
        f"import sys, tracking.{module} as m; "
        "getattr(m, 'package_versions', lambda: 0)(); "
        "print(*sorted({'mlflow', 'torch', 'numpy', 'optuna', 'hpo'} & sys.modules.keys()))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert found.split() == []
