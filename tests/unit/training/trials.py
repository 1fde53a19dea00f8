"""Small trials to train in tests, and what they are reported to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from hpo.clock import Clock
from hpo.domain.decision import CONTINUE, Action, Decision
from hpo.domain.objective import Objective
from hpo.domain.search_space import Value
from hpo.domain.trial import TIMING_METRICS, Measurement
from hpo.training.config import CLASSIFIER_SCHEMA
from hpo.training.determinism import STREAM_NAMES
from hpo.training.task import InitialWeights, PublishedCheckpoint, TrialOutcome, TrialRequest
from hpo.training.tasks.classifier import train_trial
from tracking.checkpoints import FileCheckpointStore

M = TypeVar("M", bound=nn.Module)

SMALL: Mapping[str, Value] = {
    "data": "digits",
    "epochs": 4,
    "batch_size": 200,
    "width": 4,
    "lr": 3e-3,
    "dropout": 0.25,
    "augment": 0.7,
    "warmup_epochs": 1,
}
"""Trains in a fifth of a second, with every source of randomness in use."""


def undrawn(make: Callable[[], M]) -> M:
    """Return a module whose weights are 0: torch would draw them from its own generator."""
    with torch.device("meta"):
        made = make()
    made.to_empty(device="cpu")
    for module in made.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.reset_parameters()
        else:
            for weight in module.parameters(recurse=False):
                nn.init.zeros_(weight)
    return made


class SteppingClock:
    """A clock that moves on by the same amount each time it is read."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now_s = 0.0
        self._step_s = step_s

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_s, UTC)

    def monotonic(self) -> float:
        self.now_s += self._step_s
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


@dataclass
class RecordingReporter:
    """Writes down what it is told; leaves after the epoch it is told to."""

    leave_after: int | None = None
    action: Action = Action.PAUSE
    measurements: list[Measurement] = field(default_factory=list)
    checkpoints: list[tuple[str, PublishedCheckpoint]] = field(default_factory=list)
    fractions: list[tuple[int, float]] = field(default_factory=list)

    def progress(self, epoch: int, fraction: float) -> None:
        self.fractions.append((epoch, fraction))

    def report(self, measurement: Measurement) -> Decision:
        self.measurements.append(measurement)
        if measurement.epoch == self.leave_after:
            return Decision(action=self.action, reason="the test wants it")
        return CONTINUE

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        self.checkpoints.append((kind, checkpoint))

    def newest(self, kind: str) -> PublishedCheckpoint:
        return [checkpoint for name, checkpoint in self.checkpoints if name == kind][-1]

    def model_metrics(self) -> list[dict[str, float]]:
        """Return every metric by epoch that does not measure the machine."""
        return [
            {name: v for name, v in m.metrics.items() if name not in TIMING_METRICS}
            for m in self.measurements
        ]


def small_request(
    cache_dir: Path,
    config: Mapping[str, Any] | None = None,
    objective: Objective | None = None,
    seeds: Mapping[str, int] | None = None,
    init_from: InitialWeights | None = None,
) -> TrialRequest:
    """Return a request for a small trial, with changes."""
    default_seeds = {name: index for index, name in enumerate(STREAM_NAMES)}
    return TrialRequest(
        config=CLASSIFIER_SCHEMA.complete({**SMALL, **(config or {})}),
        seeds={**default_seeds, **(seeds or {})},
        split_seed=0,
        objective=objective or Objective(metric="val_loss"),
        device="cpu",
        num_threads=1,
        cache_dir=cache_dir,
        init_from=init_from,
    )


def run(
    request: TrialRequest,
    store: FileCheckpointStore,
    reporter: RecordingReporter | None = None,
    clock: Clock | None = None,
    resume: PublishedCheckpoint | None = None,
) -> tuple[TrialOutcome, RecordingReporter]:
    """Train, and return how it ended and what was reported."""
    reporter = reporter or RecordingReporter()
    outcome = train_trial(request, reporter, store, clock or SteppingClock(), resume)
    return outcome, reporter
