"""Training a trial again from what was stored of it, and comparing every epoch."""

import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo.domain.attempt import Attempt, Environment
from hpo.domain.study import Study
from hpo.domain.trial import TIMING_METRICS, Measurement, Trial
from hpo.errors import ReproductionError, UsageError
from hpo.storage.ledger import Ledger
from hpo.study.beginning import beginning_of
from hpo.study.compose import SOURCES
from hpo.study.home import Home
from hpo.study.lineage import lineage_of, recorded_seeds
from tracking.digest import changed_files, stored_digest
from tracking.lineage import Lineage, machine_description, package_versions

REPRODUCTION_VERSION = 1
"""Of what the process is told and tells; see `hpo.study.reproduction`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first thing that came out otherwise."""

    epoch: int | None
    """None for the weights after the last epoch."""
    what: str
    """A metric's name, or `weights`."""
    recorded: str
    reproduced: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """The verdict on one reproduction."""

    trial: str
    num_epochs: int
    """Epochs compared."""
    difference: Difference | None
    """None when every metric of every epoch and the weights are identical."""
    largest_relative: float
    """The largest relative difference of any metric in any epoch; 0 when identical."""
    edited_files: tuple[str, ...]
    """Sources that differ now from the stored ones."""
    is_current_code: bool
    """Whether today's sources were run instead of the stored ones."""
    surroundings: tuple[str, ...]
    """What differs in environment, data and seeds, one sentence each."""

    @property
    def is_identical(self) -> bool:
        """Whether nothing differs."""
        return self.difference is None


def reproduce(  # the parts of a run, named at the one call
    study: Study,
    trial: Trial,
    *,
    home: Home,
    ledger: Ledger,
    is_current_code: bool,
    on_epoch: Callable[[Measurement], None] = lambda _: None,
) -> Reproduction:
    """Train a trial again in a fresh process and compare every epoch and the weights.

    The stored sources are run, unless `is_current_code`; configuration, seeds, device and number
    of threads are the recorded ones. The process cannot read what the trial left.

    Raises:
        UsageError: the trial has not ended, or never measured an epoch.
        ReproductionError: what it needs is gone or cannot run.
    """
    if not trial.state.is_finished or not trial.measurements:
        raise UsageError(
            f"{study.name}/{trial.number} is {trial.state.value} with {trial.num_epochs} epochs;"
            " only a trial that ended can be reproduced"
        )
    attempt = ledger.attempts(study.uid, trial.number)[-1]
    lineage = _lineage(home, study, trial, attempt)
    stored = home.code / attempt.environment.code_digest
    if not is_current_code:
        _check_stored(stored, attempt.environment.code_digest)
    edited = tuple(changed_files(stored, SOURCES)) if stored.is_dir() else ("all of it",)
    sources = SOURCES[0].parent if is_current_code else stored
    request = _request(home, study, trial, lineage, attempt)
    told = _Told()
    for document in _run(sources, request, told):
        told.take(document, on_epoch)
    return Reproduction(
        trial=f"{study.name}/{trial.number}",
        num_epochs=len(told.measurements),
        difference=_first_difference(trial, told),
        largest_relative=_largest_relative(trial, told),
        edited_files=edited,
        is_current_code=is_current_code,
        surroundings=tuple(_surroundings(study, trial, lineage, attempt.environment, told)),
    )


@dataclass(slots=True)
class _Told:
    """What the process printed so far."""

    measurements: list[Measurement] = dataclasses.field(default_factory=list)
    outcome: Mapping[str, Any] | None = None
    data_fingerprint: str = ""

    def take(self, document: Mapping[str, Any], on_epoch: Callable[[Measurement], None]) -> None:
        if "measurement" in document:
            self.measurements.append(Measurement(**document["measurement"]))
            on_epoch(self.measurements[-1])
        self.outcome = document.get("outcome", self.outcome)
        self.data_fingerprint = document.get("data_fingerprint", self.data_fingerprint)


def _lineage(home: Home, study: Study, trial: Trial, attempt: Attempt) -> Lineage:
    """Return the lineage beside the trial's checkpoints, or what the ledger knows of it."""
    path = home.lineage(study.name, trial.number)
    try:
        return Lineage.read(path)
    except FileNotFoundError:
        return lineage_of(
            study.sweep,
            trial.plan,
            attempt.environment,
            attempt.device,
            attempt.num_threads,
        )
    except ValueError as error:
        raise ReproductionError(
            f"{error}; delete the file to reproduce from the ledger alone"
        ) from error


def _check_stored(stored: Path, digest: str) -> None:
    if not stored.is_dir():
        raise ReproductionError(
            f"the code that the trial ran, digest {digest[:12]}, is not in {stored.parent};"
            " restore that folder, or run today's code with --current-code"
        )
    if stored_digest(stored) != digest:
        raise ReproductionError(
            f"the stored code in {stored} was changed since it was stored; restore it, or run"
            " today's code with --current-code"
        )


def _request(
    home: Home, study: Study, trial: Trial, lineage: Lineage, attempt: Attempt
) -> dict[str, Any]:
    seeds = dict(lineage.seeds)
    return {
        "version": REPRODUCTION_VERSION,
        "last_epoch": trial.num_epochs,
        "forbidden": [str(home.root / "trials"), str(home.artifacts)],
        "request": {
            "config": dict(lineage.config),
            "split_seed": seeds.pop("split"),
            "seeds": seeds,
            "objective": dataclasses.asdict(study.sweep.objective),
            "device": attempt.device,
            "num_threads": attempt.num_threads,
            "cache_dir": str(home.cache),
            "init_from": beginning_of(lineage.config, home),
        },
    }


def _run(sources: Path, request: Mapping[str, Any], told: _Told) -> Iterator[dict[str, Any]]:
    """Run the process and yield what it prints.

    Raises:
        ReproductionError: it ended without an outcome.
    """
    with tempfile.TemporaryDirectory(prefix="hpo-reproduce-") as scratch:
        errors = Path(scratch) / "stderr"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(  # our own interpreter and module
                # -P: what lies in the current folder must not stand in for the stored code.
                [sys.executable, "-P", "-m", "hpo.study.reproduction"],
                env={**os.environ, "PYTHONPATH": str(sources)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        with process:
            try:
                stdin, stdout = process.stdin, process.stdout
                if stdin is None or stdout is None:
                    raise RuntimeError("the process was started without pipes")
                stdin.write(json.dumps({**request, "scratch": scratch}))
                stdin.close()
                for line in stdout:
                    yield json.loads(line)
            finally:
                process.kill()
        if told.outcome is None:
            last = errors.read_text(errors="replace").strip().splitlines()[-1:]
            raise ReproductionError(
                f"the reproduction ended with exit code {process.returncode}: {''.join(last)}"
            )


def _first_difference(trial: Trial, told: _Told) -> Difference | None:
    for recorded, again in zip(trial.measurements, told.measurements, strict=False):
        for name in sorted(recorded.metrics.keys() - TIMING_METRICS):
            if recorded.metrics[name] != again.metrics.get(name):
                return Difference(
                    epoch=recorded.epoch,
                    what=name,
                    recorded=repr(recorded.metrics[name]),
                    reproduced=repr(again.metrics.get(name)),
                )
    if len(told.measurements) != trial.num_epochs:
        return Difference(
            epoch=min(len(told.measurements), trial.num_epochs) + 1,
            what="number of epochs",
            recorded=str(trial.num_epochs),
            reproduced=str(len(told.measurements)),
        )
    weights = (told.outcome or {}).get("weights_sha256")
    if trial.weights_sha256 is not None and weights != trial.weights_sha256:
        return Difference(
            epoch=None, what="weights", recorded=trial.weights_sha256, reproduced=str(weights)
        )
    return None


def _largest_relative(trial: Trial, told: _Told) -> float:
    """Return by how much the metrics differ at most, which tells rounding from another result."""
    largest = 0.0
    for recorded, again in zip(trial.measurements, told.measurements, strict=False):
        for name in recorded.metrics.keys() - TIMING_METRICS:
            then, now = recorded.metrics[name], again.metrics.get(name, math.inf)
            if then != now:
                largest = max(largest, abs(now - then) / max(abs(then), abs(now)))
    return largest


def _surroundings(
    study: Study, trial: Trial, lineage: Lineage, environment: Environment, told: _Told
) -> Iterator[str]:
    """Say what differs around the trial, which may explain a difference in it."""
    if told.data_fingerprint != environment.data_fingerprint:
        yield (
            f"data: fingerprint {told.data_fingerprint[:12]} now,"
            f" {environment.data_fingerprint[:12]} then"
        )
    expected: tuple[tuple[str, Mapping[str, object], Mapping[str, object]], ...] = (
        ("settings", lineage.config, trial.plan.config),
        ("seeds", lineage.seeds, recorded_seeds(study.sweep, trial.plan)),
    )
    for section, found, planned in expected:
        for name in sorted(found.keys() | planned.keys()):
            if found.get(name) != planned.get(name):
                yield (
                    f"{section}: {name} is {found.get(name)} in the trial's lineage,"
                    f" {planned.get(name)} in the plan"
                )
    surroundings: tuple[tuple[str, Mapping[str, str], Mapping[str, str]], ...] = (
        ("packages", package_versions(), environment.versions),
        ("machine", machine_description(), environment.machine),
    )
    for section, now, then in surroundings:
        for name in sorted(now.keys() | then.keys()):
            if now.get(name) != then.get(name):
                yield f"{section}: {name} {now.get(name)} now, {then.get(name)} then"
