"""The check-up's judgements, without its processes; `tests/cli` runs the whole."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from hpo.cli import doctor
from hpo.errors import HpoError
from hpo.execution.call import NoSlotError
from hpo.execution.inventory import Gpu, Inventory
from hpo.study import checkup
from hpo.study.checkup import Check, Verdict, check_up
from hpo.study.home import Home

GPU = Gpu(index=0, uuid="GPU-0")
FACTS: dict[str, Any] = {
    "torch": "2.14.1",
    "torchvision": "0.29.1",
    "cuda_build": "13.0",
    "num_gpus": 1,
    "architectures": ["sm_90"],
}


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_in_processes", lambda *_: iter(()))


def checked(home: Path) -> dict[str, Check]:
    return {check.name: check for check in check_up(Home(home))}


def inventory(*gpus: Gpu) -> Inventory:
    return Inventory(gpus=gpus, has_mps=False, num_cores=2, free_memory_bytes=1 << 30)


def test_a_home_that_is_not_there_yet_is_well_and_is_not_made(tmp_path: Path) -> None:
    checks = checked(tmp_path / "a/b")
    assert set(checks) == {"python", "packages", "cores", "home", "disk", "ledger"}
    # a core may be busy while tests run
    assert all(c.verdict is Verdict.OK for name, c in checks.items() if name != "cores")
    assert list(tmp_path.iterdir()) == []


def test_a_home_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = checked(tmp_path / "file/runs")["home"]
    assert check.verdict is Verdict.FAULT
    assert "--home" in check.remedy


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(1 << 20, Verdict.FAULT), (1 << 30, Verdict.WARNING), (9 << 30, Verdict.OK)],
)
def test_little_disk_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, verdict: Verdict
) -> None:
    usage = SimpleNamespace(free=free)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert checked(tmp_path)["disk"].verdict is verdict


def test_a_ledger_that_is_no_database_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "hpo.db").write_text("this is no database, and long enough to be read as one" * 9)
    check = checked(tmp_path)["ledger"]
    assert check.verdict is Verdict.FAULT
    assert check.remedy


def test_another_python_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "PYTHONS", ((3, 0), sys.version_info[:2]))
    assert checked(tmp_path)["python"].verdict is Verdict.FAULT


def test_a_missing_package_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "PACKAGES", ("torch", "no-such-package"))
    assert checked(tmp_path)["no-such-package"].verdict is Verdict.FAULT


@pytest.mark.parametrize(
    ("facts", "gpus", "verdict", "remedy"),
    [
        ({}, (GPU,), Verdict.OK, ""),
        ({"num_gpus": 0}, (GPU,), Verdict.FAULT, "driver is too old"),
        ({"num_gpus": 0, "cuda_build": None}, (GPU,), Verdict.FAULT, "build for CUDA"),
        ({"num_gpus": 0, "cuda_build": None}, (), None, ""),
    ],
)
def test_a_gpu_that_torch_does_not_see_is_a_fault(
    facts: dict[str, Any], gpus: tuple[Gpu, ...], verdict: Verdict | None, remedy: str
) -> None:
    checks = {c.name: c for c in checkup._torch({**FACTS, **facts}, inventory(*gpus), 1.0)}
    assert (checks["gpus"].verdict if "gpus" in checks else None) is verdict
    if verdict is not None:
        assert remedy in checks["gpus"].remedy


def test_what_fails_is_a_fault_in_one_line_and_a_taken_device_a_warning() -> None:
    def fail() -> Check:
        raise RuntimeError("no kernel image is available\nCUDA says more")

    def wait() -> Check:
        raise NoSlotError("no device is free")

    fault = checkup._tried("kernels", fail, "another build")
    assert (fault.verdict, fault.found) == (Verdict.FAULT, "no kernel image is available")
    assert checkup._tried("kernels", wait, "").verdict is Verdict.WARNING


def answered(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> Any:
    def stand_in(*_: Any) -> Iterator[Check]:
        yield from checks

    monkeypatch.setattr(checkup, "check_up", stand_in)
    return CliRunner().invoke(doctor.command, ["--json"])


def test_a_fault_ends_doctor_with_1_and_a_warning_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warning = Check(name="disk", verdict=Verdict.WARNING, found="1 GB", remedy="make room")
    fault = Check(name="mlflow", verdict=Verdict.FAULT, found="is broken", remedy="move it")
    well = answered(monkeypatch, warning)
    assert well.exit_code == 0
    assert json.loads(well.stdout)["is_fit"]
    ill = answered(monkeypatch, warning, fault)
    assert isinstance(ill.exception, HpoError)
    assert ill.exception.exit_code == 1
    assert "mlflow" in str(ill.exception)
    assert not json.loads(ill.stdout)["is_fit"]
