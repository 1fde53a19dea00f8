"""What runs inside an attempt's process: training meets the channel here.

Each function is an entry point: it takes a plain payload and a channel and returns plain JSON.
The warm server imports this module once, so everything heavy is imported at its top.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpo.clock import SystemClock
from hpo.domain.decision import Decision
from hpo.domain.objective import Objective
from hpo.domain.trial import CheckpointRef, FailureKind, Measurement
from hpo.execution.channel import Channel
from hpo.execution.entry_point import FailedTrialError
from hpo.execution.message import CheckpointWritten, Progress, Report, Started
from hpo.training.data.prepare import prepare_data
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
    return TrialRequest(
        config=payload["config"],
        seeds=payload["seeds"],
        split_seed=payload["split_seed"],
        objective=Objective(**payload["objective"]),
        device=payload["device"],
        num_threads=payload["num_threads"],
        cache_dir=Path(payload["cache_dir"]),
    )


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


def evaluate(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Evaluate stored checkpoints on one split; return metrics by trial number."""
    store = FileCheckpointStore(Path(payload["home"]))
    return {
        str(item["number"]): evaluate_checkpoint(
            request_from(item["request"]), store, item["uri"], item["sha256"], payload["split"]
        )
        for item in payload["items"]
    }
