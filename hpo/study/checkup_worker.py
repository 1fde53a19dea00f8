"""What the check-up runs in processes of their own: torch, and MLflow's store."""

import logging
import os
import tempfile
import urllib.request
import warnings
from pathlib import Path
from typing import Any, Final

from hpo.clock import SystemClock
from hpo.domain.decision import CONTINUE, Action, Decision
from hpo.domain.trial import FailureKind, Measurement
from hpo.execution.channel import Channel
from hpo.execution.entry_point import FailedTrialError
from hpo.study.worker import request_from
from hpo.training.machine import describe_torch, run_kernels
from hpo.training.task import PublishedCheckpoint
from hpo.training.tasks.classifier import train_trial
from tracking.checkpoints import FileCheckpointStore

SERVER_TIMEOUT_S: Final = 10.0
"""For a tracking server to answer that it is well."""


def echo(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Return the payload: a round trip to a fresh process."""
    return payload


def torch_facts(_payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Return what torch finds."""
    return describe_torch()


def kernels(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Run kernels on a device and return what it is."""
    try:
        return run_kernels(payload["device"])
    except RuntimeError as error:
        raise FailedTrialError(FailureKind.BUG, str(error).splitlines()[0]) from error


def mlflow_store(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Open a store, creating a local one, or ask a server whether it is well."""
    uri: str = payload["uri"]
    if uri.startswith(("http://", "https://")):
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(SERVER_TIMEOUT_S))
        with urllib.request.urlopen(f"{uri}/health", timeout=SERVER_TIMEOUT_S) as answer:  # noqa: S310  # the scheme is checked above
            return {"status": answer.status}
    warnings.simplefilter("ignore")
    from tracking.mlflow_tracker import MlflowTracker  # noqa: PLC0415  # 2 s, and only here

    for name in ("mlflow", "alembic"):  # they tell of every migration
        logging.getLogger(name).setLevel(logging.CRITICAL)
    MlflowTracker(uri, Path(payload["artifacts"]))
    return {"status": 200}


class SpeedReporter:
    """Keeps the last epoch's metrics; ends training after the second; fulfils `Reporter`."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}

    def progress(self, epoch: int, fraction: float) -> None:
        """Hear a sign of life."""

    def report(self, measurement: Measurement) -> Decision:
        """Keep an epoch's metrics; the first epoch also warms up."""
        self.metrics = dict(measurement.metrics)
        is_enough = measurement.epoch > 1
        return Decision(action=Action.PRUNE, reason="timed") if is_enough else CONTINUE

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        """Hear of a checkpoint."""


def speed(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Train two epochs and return the metrics of the second."""
    reporter = SpeedReporter()
    with tempfile.TemporaryDirectory(prefix="hpo-doctor-") as scratch:
        store = FileCheckpointStore(Path(scratch))
        train_trial(request_from(payload["request"]), reporter, store, SystemClock(), None)
    return reporter.metrics
