"""One short script for a machine with a CUDA device: the paths that a CPU cannot run."""

from pathlib import Path

import pytest
import torch

from hpo.clock import SystemClock
from hpo.domain.decision import CONTINUE, Action, Decision
from hpo.domain.objective import Objective
from hpo.domain.trial import Measurement
from hpo.search.seeds import split_seed, trial_seeds
from hpo.training.config import CLASSIFIER_SCHEMA
from hpo.training.task import PublishedCheckpoint, TrialRequest
from hpo.training.tasks.classifier import evaluate_checkpoint, train_trial
from tracking.checkpoints import FileCheckpointStore

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


class Recorder:
    """Keeps measurements and checkpoints, and stops after an epoch."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.measurements: list[Measurement] = []
        self.published_of: dict[str, PublishedCheckpoint] = {}
        self._stop_after = stop_after

    def progress(self, epoch: int, fraction: float) -> None:
        pass

    def report(self, measurement: Measurement) -> Decision:
        self.measurements.append(measurement)
        if measurement.epoch == self._stop_after:
            return Decision(action=Action.STOP, reason="test")
        return CONTINUE

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        self.published_of[kind] = checkpoint


def request(cache_dir: Path, device: str) -> TrialRequest:
    return TrialRequest(
        config=CLASSIFIER_SCHEMA.complete({"data": "digits", "epochs": 4, "augment": 0.5}),
        seeds=trial_seeds(0, 0),
        split_seed=split_seed(0),
        objective=Objective(metric="val_loss"),
        device=device,
        num_threads=1,
        cache_dir=cache_dir,
    )


def test_a_trial_on_cuda_learns_resumes_and_is_read_on_the_cpu(tmp_path: Path) -> None:
    wanted = request(tmp_path / "cache", "cuda:0")
    whole = Recorder()
    train_trial(wanted, whole, FileCheckpointStore(tmp_path, "whole"), SystemClock(), None)
    assert whole.measurements[-1].metrics["val_accuracy"] > 0.8

    first, store = Recorder(stop_after=2), FileCheckpointStore(tmp_path, "cut")
    train_trial(wanted, first, store, SystemClock(), None)
    second = Recorder()
    train_trial(wanted, second, store, SystemClock(), first.published_of["last"])
    resumed = second.measurements[-1].metrics["val_loss"]
    assert resumed == pytest.approx(whole.measurements[-1].metrics["val_loss"], rel=0.05)

    best = second.published_of["best"]
    on_cpu = evaluate_checkpoint(
        request(tmp_path / "cache", "cpu"), store, best.uri, best.sha256, "val"
    )
    reported = second.measurements[best.epoch - 1 - 2].metrics["val_loss"]
    assert on_cpu["loss"] == pytest.approx(reported, rel=1e-2)
