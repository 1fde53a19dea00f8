"""Is everything here that a study needs, and does it work? Each answer comes from trying it."""

import dataclasses
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hpo.domain.objective import Objective
from hpo.domain.sweep import Execution, Sweep
from hpo.errors import HpoError
from hpo.execution.call import NoSlotError, call
from hpo.execution.executor import Executor
from hpo.execution.inventory import Inventory, take_inventory
from hpo.search.seeds import split_seed, trial_seeds
from hpo.storage.sql_ledger import SqlLedger
from hpo.study.compose import open_executor
from hpo.study.home import Home
from hpo.training.config import CLASSIFIER_SCHEMA

if TYPE_CHECKING:
    from hpo.domain.search_space import Value

WORKER: Final = "hpo.study.checkup_worker"

PYTHONS: Final = ((3, 11), (3, 14))
"""The first version that will do, and the first that will not; as in pyproject.toml."""

PACKAGES: Final = ("torch", "torchvision", "optuna", "mlflow", "sqlalchemy", "numpy")

LITTLE_DISK_BYTES: Final = 2 << 30
NO_DISK_BYTES: Final = 200 << 20
"""A study of 20 small trials leaves 50 MB; decoded image sets and their checkpoints some GB."""

SLOW_START_S: Final = 1.0
"""A fork takes 0.03 s, and a new process of a system without fork 3 s."""

SLOW_IMAGES_PER_S: Final = 500.0
"""A laptop's core trains the small network on 8 x 8 images at 3000 to 8000 a second."""

LOADER_SHARE: Final = 0.3
"""Of training time spent on waiting for examples and varying them."""


class Verdict(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    """A study runs, but not as it could."""
    FAULT = "fault"
    """A study cannot run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was tried."""

    name: str
    verdict: Verdict
    found: str
    """What is there, with its numbers."""
    remedy: str = ""
    """What to do; empty when all is well."""


def check_up(home: Home, sweep: Sweep | None = None) -> Iterator[Check]:
    """Try everything that a study needs, the cheapest first.

    Args:
        home: where studies would be kept; it is not created.
        sweep: whose baseline is trained for two epochs; a small one on digits when None.
    """
    yield _python()
    yield from _packages()
    inventory = take_inventory()
    yield _cores(inventory)
    yield _home(home)
    yield _disk(home)
    yield _tried("ledger", lambda: _ledger(home), "move hpo.db away, or name another --home")
    with tempfile.TemporaryDirectory(prefix="hpo-doctor-") as scratch:
        yield from _in_processes(home, inventory, sweep, Path(scratch))


def _tried(name: str, attempt: Callable[[], Check], remedy: str) -> Check:
    try:
        return attempt()
    except NoSlotError as error:
        return Check(name=name, verdict=Verdict.WARNING, found=str(error), remedy="try later")
    except Exception as error:  # noqa: BLE001  # whatever fails here is what is to be told
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Check(name=name, verdict=Verdict.FAULT, found=text, remedy=remedy)


def _python() -> Check:
    first, last = PYTHONS
    version = sys.version_info[:2]
    is_fitting = first <= version < last
    return Check(
        name="python",
        verdict=Verdict.OK if is_fitting else Verdict.FAULT,
        found=f"{sys.version.split()[0]} at {sys.executable}",
        remedy="" if is_fitting else "take Python 3.11, 3.12 or 3.13",
    )


def _packages() -> Iterator[Check]:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    yield Check(name="packages", verdict=Verdict.OK, found=", ".join(found))
    for name in missing:
        yield Check(
            name=name,
            verdict=Verdict.FAULT,
            found="is not installed",
            remedy="install hpo again: make venv, or pip install -e .",
        )


def _cores(inventory: Inventory) -> Check:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    is_busy = load > inventory.num_cores
    return Check(
        name="cores",
        verdict=Verdict.WARNING if is_busy else Verdict.OK,
        found=f"{inventory.num_cores}, load {load:.1f};"
        f" {inventory.free_memory_bytes / 1e9:.1f} GB of memory free",
        remedy="others compute here now; studies will take longer" if is_busy else "",
    )


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _home(home: Home) -> Check:
    there = _existing(home.root)
    is_writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    found = f"{home.root}{'' if home.root.exists() else ', made by the first study'}"
    if is_writable:
        return Check(name="home", verdict=Verdict.OK, found=found)
    return Check(
        name="home",
        verdict=Verdict.FAULT,
        found=f"{there} cannot be written",
        remedy="name another folder with --home DIR or HPO_HOME",
    )


def _disk(home: Home) -> Check:
    free = shutil.disk_usage(_existing(home.root)).free
    found = f"{free / 1e9:.1f} GB free at {_existing(home.root)}"
    if free >= LITTLE_DISK_BYTES:
        return Check(name="disk", verdict=Verdict.OK, found=found)
    verdict = Verdict.FAULT if free < NO_DISK_BYTES else Verdict.WARNING
    return Check(name="disk", verdict=verdict, found=found, remedy="make room, or move the home")


def _ledger(home: Home) -> Check:
    if not home.exists:
        return Check(name="ledger", verdict=Verdict.OK, found="none yet")
    ledger = SqlLedger(home.ledger_url)
    try:
        num_studies = len(ledger.studies())
    finally:
        ledger.close()
    return Check(name="ledger", verdict=Verdict.OK, found=f"opens, {num_studies} studies")


def _in_processes(
    home: Home, inventory: Inventory, sweep: Sweep | None, scratch: Path
) -> Iterator[Check]:
    """Check what runs in processes of its own; without any, that is the last answer."""
    execution = sweep.execution if sweep else Execution()
    on_cpu = Execution(devices=("cpu",)) if inventory.gpus else execution
    log = scratch / "log"
    began_s = time.monotonic()
    with open_executor(on_cpu, inventory) as executor:
        try:
            facts = call(executor, f"{WORKER}:torch_facts", {}, log)
        except (HpoError, RuntimeError) as error:
            yield Check(
                name="torch",
                verdict=Verdict.FAULT,
                found=str(error).splitlines()[0],
                remedy="install hpo again: make venv, or pip install -e .",
            )
            return
        yield from _torch(facts, inventory, time.monotonic() - began_s)
        yield _tried("process start", lambda: _round_trip(executor, log), "")
        yield _tried(
            "kernels on cpu",
            lambda: _kernels(executor, "cpu", log),
            "this torch is not for this processor; install another build",
        )
        yield _tried(
            "mlflow",
            lambda: _mlflow(executor, home, scratch),
            "move mlflow.db away, or mend the server that MLFLOW_TRACKING_URI names",
        )
        if not inventory.gpus:
            yield _tried("speed", lambda: _speed(executor, home, sweep, scratch), "")
    if inventory.gpus:
        yield from _gpus(home, inventory, sweep, scratch)


def _gpus(home: Home, inventory: Inventory, sweep: Sweep | None, scratch: Path) -> Iterator[Check]:
    """Run kernels on every GPU that a study would use, and train on the first."""
    execution = sweep.execution if sweep else Execution()
    with open_executor(execution, inventory) as executor:
        yield _tried("speed", lambda: _speed(executor, home, sweep, scratch), "")
        for slot in executor.slots:
            name = f"kernels on {slot.visible_device or slot.device}"
            yield _tried(
                name,
                lambda slot=slot: _kernels(executor, slot.device, scratch / "log"),  # type: ignore[misc]
                "the driver does not fit this torch, or the GPU is taken; see nvidia-smi, then"
                " https://pytorch.org/get-started/locally",
            )
            executor.take_slot()  # so that the next call gets the next one


def _torch(facts: Mapping[str, Any], inventory: Inventory, start_s: float) -> Iterator[Check]:
    built = f"for CUDA {facts['cuda_build']}" if facts["cuda_build"] else "for CPUs only"
    found = f"{facts['torch']} {built}, torchvision {facts['torchvision']}"
    yield Check(name="torch", verdict=Verdict.OK, found=f"{found}; imported in {start_s:.1f} s")
    num_there, num_found = len(inventory.gpus), facts["num_gpus"]
    if not num_there and not num_found:
        return
    is_seen = num_found >= num_there
    remedy = (
        "install a torch build for CUDA"
        if not facts["cuda_build"]
        else "the driver is too old for this torch; update it, or install a build for its CUDA"
    )
    yield Check(
        name="gpus",
        verdict=Verdict.OK if is_seen else Verdict.FAULT,
        found=f"{num_there} by the driver {_driver()}, {num_found} by torch",
        remedy="" if is_seen else remedy,
    )


def _driver() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    result = subprocess.run(  # noqa: S603  # the driver's own tool, fixed arguments
        [program, "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return result.stdout.split("\n", 1)[0].strip()


def _round_trip(executor: Executor, log: Path) -> Check:
    began_s = time.monotonic()
    answer = call(executor, f"{WORKER}:echo", {"said": "hello"}, log)
    took_s = time.monotonic() - began_s
    if answer != {"said": "hello"}:
        raise HpoError(f"a fresh process answered {json.dumps(answer)}")
    is_slow = took_s > SLOW_START_S and sys.platform == "linux"
    return Check(
        name="process start",
        verdict=Verdict.WARNING if is_slow else Verdict.OK,
        found=f"{1000 * took_s:.0f} ms from asking to the answer of a fresh process",
        remedy="the machine is busy, or short of memory" if is_slow else "",
    )


def _kernels(executor: Executor, device: str, log: Path) -> Check:
    shown = executor.slots[0].visible_device or device
    facts = call(executor, f"{WORKER}:kernels", {"device": device}, log)
    found = "matrix product, convolution, gradient and torchvision's own are right"
    if facts["total_bytes"] is not None:
        found = (
            f"{facts['name']} ({shown}, capability {facts['capability']}),"
            f" {facts['free_bytes'] / 1e9:.1f} of {facts['total_bytes'] / 1e9:.1f} GB free;"
            f" {found}"
        )
    name = "kernels on cpu" if device == "cpu" else f"kernels on {shown}"
    return Check(name=name, verdict=Verdict.OK, found=found)


def _mlflow(executor: Executor, home: Home, scratch: Path) -> Check:
    named = os.environ.get("MLFLOW_TRACKING_URI")
    is_new = not named and not (home.root / "mlflow.db").exists()
    uri = named or (f"sqlite:///{scratch / 'mlflow.db'}" if is_new else home.mlflow_uri)
    payload = {"uri": uri, "artifacts": str(scratch if is_new else home.artifacts)}
    began_s = time.monotonic()
    call(executor, f"{WORKER}:mlflow_store", payload, scratch / "log")
    what = "a new store can be made" if is_new else f"{named or 'the store of this home'} opens"
    return Check(
        name="mlflow", verdict=Verdict.OK, found=f"{what} ({time.monotonic() - began_s:.1f} s)"
    )


def _speed(executor: Executor, home: Home, sweep: Sweep | None, scratch: Path) -> Check:
    small: dict[str, Value] = {"data": "digits", "model": "simple_cnn", "epochs": 2}
    config = dict(sweep.baseline) if sweep else dict(CLASSIFIER_SCHEMA.complete(small))
    config["epochs"] = max(2, int(config.get("epochs", 2)))
    seed, slot = (sweep.seed if sweep else 0), executor.slots[0]
    request = {
        "config": config,
        "seeds": trial_seeds(seed, 0),
        "split_seed": split_seed(seed),
        "objective": dataclasses.asdict(Objective(metric="val_loss")),
        "device": slot.device,
        "num_threads": slot.num_threads,
        "cache_dir": str(home.cache if home.cache.exists() else scratch),
    }
    metrics = call(executor, f"{WORKER}:speed", {"request": request}, scratch / "log")
    images_per_s = metrics["examples_per_s"]
    found = f"{images_per_s:.0f} images a second in training {config['data']} on {slot.device}"
    waited, computed = metrics.get("data_s", 0.0), metrics.get("compute_s", 0.0)
    share = waited / max(waited + computed, 1e-9)
    if waited or computed:
        found += f", {share:.0%} of the time on getting and varying them"
    remedy = ""
    if sweep is not None and share > LOADER_SHARE:
        remedy = "the model waits for data: more loader.workers, or loader.mode: resident"
    elif sweep is None and images_per_s < SLOW_IMAGES_PER_S:
        remedy = "much slower than a laptop: see cores; too many threads fight for few cores"
    verdict = Verdict.WARNING if remedy else Verdict.OK
    return Check(name="speed", verdict=verdict, found=found, remedy=remedy)
