"""What runs inside an attempt's process: training meets the channel here.

Each function is an entry point: it takes a plain payload and a channel and returns plain JSON.
The warm server imports this module once, so everything heavy is imported at its top.
"""

import contextlib
import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from hpo.clock import SystemClock
from hpo.domain.decision import CONTINUE, Action, Decision
from hpo.domain.trial import CheckpointRef, FailureKind, Measurement
from hpo.execution.channel import Channel
from hpo.execution.entry_point import FailedTrialError
from hpo.execution.message import CheckpointWritten, Progress, Report, Started
from hpo.training.data.prepare import prepare_data
from hpo.training.preflight import PreflightError, preflight
from hpo.training.range_test import range_test
from hpo.training.task import BadConfigError, PublishedCheckpoint, TrialRequest
from hpo.training.tasks.classifier import evaluate_checkpoint, train_trial
from tracking.checkpoints import CheckpointDamagedError, FileCheckpointStore


class ChannelReporter:
    """Speaks to the conductor for the training; fulfils `Reporter`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def progress(self, epoch: int, fraction: float) -> None:
        """Tell how much of the running epoch is done."""
        self._channel.tell(Progress(epoch=epoch, fraction=fraction))

    def report(self, measurement: Measurement) -> Decision:
        """Hand over an epoch's metrics and return what to do next."""
        return self._channel.ask(Report(measurement=measurement))

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        """Tell that a checkpoint is on disk and wait until that is on record."""
        reference = CheckpointRef(**dataclasses.asdict(checkpoint))
        self._channel.ask(CheckpointWritten(checkpoint_kind=kind, checkpoint=reference))


def request_from(payload: Mapping[str, Any]) -> TrialRequest:
    """Read a training request from its JSON form, which `hpo.study.compose` writes."""
    return TrialRequest.from_json(payload)


def prepare(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Decode and split a data set once; return its card."""
    try:
        card = prepare_data(payload["config"], Path(payload["cache_dir"]), payload["split_seed"])
    except BadConfigError as error:
        raise FailedTrialError(FailureKind.BAD_CONFIG, str(error)) from error
    return dataclasses.asdict(card)


def run_attempt(payload: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Train one attempt, from its last checkpoint when it has one; return the outcome."""
    request = request_from(payload["request"])
    store = FileCheckpointStore(Path(payload["home"]), payload["folder"])
    last = payload["resume"]
    resume = PublishedCheckpoint(**last) if last else None
    channel.tell(Started(resumed_epoch=resume.epoch if resume else 0))
    try:
        outcome = train_trial(request, ChannelReporter(channel), store, SystemClock(), resume)
    except CheckpointDamagedError as error:
        # The recorded checkpoint cannot be trusted; training from the beginning gives the same.
        print(f"{error}; training from the beginning", flush=True)  # noqa: T201  # the trial's log
        outcome = train_trial(request, ChannelReporter(channel), store, SystemClock(), None)
    except BadConfigError as error:
        raise FailedTrialError(FailureKind.BAD_CONFIG, str(error)) from error
    return dataclasses.asdict(outcome)


def try_out(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Try a configuration on a few images; return what was measured, or its first fault."""
    try:
        passed = preflight(request_from(payload["request"]), SystemClock())
    except PreflightError as error:
        return {"fault": str(error), "details": error.details}
    return dataclasses.asdict(passed)


def find_range(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Train with a rising learning rate; return the losses and the range that they suggest."""
    try:
        tested = range_test(
            request_from(payload["request"]),
            SystemClock(),
            low=payload["low"],
            high=payload["high"],
            num_steps=payload["num_steps"],
        )
    except BadConfigError as error:
        raise FailedTrialError(FailureKind.BAD_CONFIG, str(error)) from error
    return dataclasses.asdict(tested)


MICRO_RUN_S = 10.0
"""How long a timed run may take before it is stopped within an epoch."""


class _EnoughSeenError(Exception):
    """A timed run has run long enough."""


class Stopwatch:
    """Times the second epoch, or what can be seen of the first; fulfils `Reporter`."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._began_s = self._clock.monotonic()
        self.epoch_s = 0.0
        self.checkpoint_bytes = 0

    def progress(self, epoch: int, fraction: float) -> None:
        """Stop an epoch that takes too long, and extrapolate."""
        elapsed_s = self._clock.monotonic() - self._began_s
        if elapsed_s > MICRO_RUN_S and fraction > 0:
            self.epoch_s = elapsed_s / (epoch - 1 + fraction)
            raise _EnoughSeenError

    def report(self, measurement: Measurement) -> Decision:
        """Take an epoch's time; the first one includes warming up."""
        self.epoch_s = measurement.metrics["epoch_s"]
        elapsed_s = self._clock.monotonic() - self._began_s
        is_enough = measurement.epoch > 1 or elapsed_s > MICRO_RUN_S
        return Decision(action=Action.PRUNE, reason="timed") if is_enough else CONTINUE

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        """Count what a trial leaves on disk."""
        del kind
        self.checkpoint_bytes += checkpoint.num_bytes


def micro_run(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Train for a moment; return seconds an epoch, bytes of checkpoints and peak memory."""
    watch = Stopwatch()
    with (
        tempfile.TemporaryDirectory(prefix="hpo-plan-") as scratch,
        contextlib.suppress(_EnoughSeenError),
    ):
        store = FileCheckpointStore(Path(scratch))
        train_trial(request_from(payload["request"]), watch, store, SystemClock(), None)
    return {
        "epoch_s": watch.epoch_s,
        "checkpoint_bytes": watch.checkpoint_bytes,
        "memory_bytes": psutil.Process().memory_info().rss,
    }


def evaluate(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Evaluate stored checkpoints on one split; return metrics by trial number."""
    store = FileCheckpointStore(Path(payload["home"]))
    return {
        str(item["number"]): evaluate_checkpoint(
            request_from(item["request"]), store, item["uri"], item["sha256"], payload["split"]
        )
        for item in payload["items"]
    }
