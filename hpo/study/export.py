"""The best epoch of a trial, written as a bundle. The work is done in a fresh process."""

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo.clock import Clock
from hpo.domain.attempt import Attempt
from hpo.domain.study import Study
from hpo.domain.trial import CheckpointRef, Trial
from hpo.execution.call import CallFailedError, call
from hpo.execution.executor import Executor
from hpo.export.bundle import ExportError
from hpo.export.publication import check_destination
from hpo.search.seeds import split_seed, trial_seeds
from hpo.storage.ledger import Ledger
from hpo.study.home import Home
from hpo.study.lineage import recorded_seeds

WORKER = "hpo.study.export_worker:export"
"""The entry point that knows torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOrder:
    """What to export, and where to."""

    study: Study
    trial: Trial
    """One of the study's, with a checkpoint of its best epoch."""
    facts: Mapping[str, Any]
    """What the study says of the configuration, in plain JSON: means, interval, test, verdict."""
    destination: Path
    """A free name, an empty folder, or a bundle, which is replaced."""


def default_destination(study: str) -> Path:
    """Return where a study's best goes when no place is named."""
    return Path(f"{study}-best")


def export_trial(
    order: ExportOrder, *, home: Home, ledger: Ledger, executor: Executor, clock: Clock
) -> Path:
    """Publish a trial's best epoch as a bundle and return its folder.

    Args:
        order: what and where.
        home: where the checkpoint and the data's cache are.
        ledger: tells what the trial ran under.
        executor: idle; one slot of it is used.
        clock: stamps the bundle.

    Raises:
        ExportError: the checkpoint is missing or damaged, the data is not what the trial was
            trained on, the export is not the checkpoint, or the destination is taken. What was at
            the destination is as it was.
    """
    destination = order.destination.absolute()
    check_destination(destination)
    name = f"{order.study.name}/{order.trial.number}"
    checkpoint = best_checkpoint(order.study, order.trial)
    attempts = ledger.attempts(order.study.uid, order.trial.number)
    if not attempts:
        raise ExportError(f"{name} has a checkpoint but no attempt on record")
    metrics = _metrics_of(order.trial, checkpoint)
    with tempfile.TemporaryDirectory(prefix="hpo-export-") as folder:
        # A job is small; what there is to say of a study may be long.
        sections = Path(folder, "sections.json")
        sections.write_text(json.dumps(_sections(order, checkpoint, metrics, attempts)))
        payload = {
            "title": name,
            "home": str(home.root),
            "cache_dir": str(home.cache),
            "uri": checkpoint.uri,
            "sha256": checkpoint.sha256,
            "config": dict(order.trial.plan.config),
            "split_seed": split_seed(order.study.sweep.seed),
            "resplit_seed": trial_seeds(order.study.sweep.seed, order.trial.plan.replicate)[
                "resplit"
            ],
            "data_fingerprint": attempts[-1].environment.data_fingerprint,
            "num_threads": executor.slots[0].num_threads,
            "reported": {"accuracy": metrics["val_accuracy"], "device": attempts[-1].device},
            "sections": str(sections),
            "created_at": clock.now().isoformat(),
            "destination": str(destination),
        }
        try:
            result = call(executor, WORKER, payload, home.log)
        except CallFailedError as error:
            raise ExportError(f"{name} is not exported: {error}") from error
    return Path(result["folder"])


def best_checkpoint(study: Study, trial: Trial) -> CheckpointRef:
    """Return the checkpoint of the epoch whose value is the trial's value.

    Raises:
        ExportError: there is none, or it is of another epoch than the ledger says.
    """
    name = f"{study.name}/{trial.number}"
    if trial.best is None:
        raise ExportError(f"{name} has no checkpoint of its best epoch; name a COMPLETE trial")
    if trial.best.epoch != trial.best_epoch:
        raise ExportError(
            f"the checkpoint of {name} is of epoch {trial.best.epoch}, its best epoch is"
            f" {trial.best_epoch}; run the study again"
        )
    return trial.best


def _metrics_of(trial: Trial, checkpoint: CheckpointRef) -> Mapping[str, float]:
    """Return what was reported of the epoch that the checkpoint holds."""
    for measurement in trial.measurements:
        if measurement.epoch == checkpoint.epoch:
            return measurement.metrics
    raise ExportError(
        f"trial {trial.number} has a checkpoint of epoch {checkpoint.epoch} but no measurement of"
        " it on record; go on with `hpo resume`"
    )


def _sections(
    order: ExportOrder,
    checkpoint: CheckpointRef,
    metrics: Mapping[str, float],
    attempts: tuple[Attempt, ...],
) -> dict[str, Any]:
    """Return what the manifest says of model, metrics, study and lineage."""
    study, trial, attempt = order.study, order.trial, attempts[-1]
    return {
        "model": {"config": dict(trial.plan.config), "params": dict(trial.plan.params)},
        "metrics": {"epoch": checkpoint.epoch, **metrics},
        "study": dict(order.facts),
        "lineage": {
            "study": study.name,
            "study_uid": study.uid,
            "trial": f"{study.name}/{trial.number}",
            "state": trial.state.value,
            "ended_at": trial.ended_at,
            "config_id": trial.plan.config_id,
            "replicate": trial.plan.replicate,
            "seeds": recorded_seeds(study.sweep, trial.plan),
            "attempts": len(attempts),
            "device": attempt.device,
            "num_threads": attempt.num_threads,
            "environment": dataclasses.asdict(attempt.environment),
            "checkpoint": dataclasses.asdict(checkpoint),
        },
    }
