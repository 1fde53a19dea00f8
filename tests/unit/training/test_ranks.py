"""Several processes train as one does, and end together."""

import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from hpo.domain.trial import Measurement
from hpo.training.config import CLASSIFIER_SCHEMA
from hpo.training.ranks import RankDiedError, leading, rank_device
from hpo.training.task import BadConfigError, OutcomeKind, TrialRequest
from tests.unit.training.trials import RecordingReporter, run, small_request
from tracking.checkpoints import FileCheckpointStore

PLAIN = {
    "model": "mlp",
    "dropout": 0.0,
    "augment": 0.0,
    "optimizer": "sgd",
    "lr": 0.05,
    "batch_size": 100,
    "epochs": 3,
}
"""No norms over the batch and no draws of a rank's own: the same updates on any number of ranks.
1257 images leave 57 in the last batch, which two ranks cannot share evenly."""


def request(cache_dir: Path, **changes: Any) -> TrialRequest:
    return small_request(cache_dir, {**PLAIN, **changes})


def close(first: list[dict[str, float]], second: list[dict[str, float]]) -> bool:
    return all(
        one[name] == pytest.approx(other[name], rel=1e-5, abs=1e-5)
        for one, other in zip(first, second, strict=True)
        for name in one
    )


def weights(store: FileCheckpointStore, told: RecordingReporter) -> Any:
    last = told.newest("last")
    return store.open(last.uri, last.sha256).tensors


@pytest.mark.slow
def test_two_ranks_train_as_one_does(tmp_path: Path, cache_dir: Path) -> None:
    stores = [FileCheckpointStore(tmp_path / str(n)) for n in (1, 2)]
    changes = {"accumulate": 2, "class_weights": "auto", "ema_decay": 0.9, "clip_norm": 1.0}
    _, alone = run(request(cache_dir, **changes), stores[0])
    outcome, both = run(request(cache_dir, devices_per_trial=2, **changes), stores[1])
    assert outcome.kind is OutcomeKind.FINISHED
    assert close(alone.model_metrics(), both.model_metrics())
    first, second = (weights(s, t) for s, t in zip(stores, (alone, both), strict=True))
    for name, tensor in first.items():
        if tensor.is_floating_point():
            assert (tensor - second[name]).abs().max() < 1e-5, name


@pytest.mark.slow
def test_ranks_resume_together(tmp_path: Path, cache_dir: Path) -> None:
    # dropout and augmentation too: the streams of the other ranks are not in any checkpoint
    asked = request(cache_dir, devices_per_trial=2, dropout=0.3, augment=0.5)
    whole, told = run(asked, FileCheckpointStore(tmp_path / "whole"))
    store = FileCheckpointStore(tmp_path / "resumed")
    _, before = run(asked, store, RecordingReporter(leave_after=1))
    resumed, after = run(asked, store, resume=before.newest("last"))
    assert resumed == whole
    assert before.model_metrics() + after.model_metrics() == told.model_metrics()


class KillingReporter(RecordingReporter):
    """Kills the other process after the first epoch."""

    def report(self, measurement: Measurement) -> Any:
        for child in psutil.Process().children():
            child.send_signal(signal.SIGKILL)
        return super().report(measurement)


@pytest.mark.slow
def test_a_dead_rank_ends_the_attempt(tmp_path: Path, cache_dir: Path) -> None:
    asked = request(cache_dir, devices_per_trial=2, epochs=50)
    with pytest.raises(RankDiedError, match="process 1 of 2 was killed by signal 9"):
        run(asked, FileCheckpointStore(tmp_path), KillingReporter())
    assert psutil.Process().children() == []


@pytest.mark.slow
def test_a_rank_that_cannot_begin_ends_the_attempt(cache_dir: Path) -> None:
    plain = request(cache_dir, devices_per_trial=2).to_json() | {"cache_dir": "/dev/null/x"}
    asked = {"request": plain, "is_resumed": False}
    with (
        pytest.raises(RankDiedError, match="process 1 of 2 ended with exit code 1"),
        leading(asked, 2, "cpu", timedelta(seconds=60)) as ranks,
    ):
        ranks.add_up(torch.zeros(1))


@pytest.mark.slow
def test_the_other_ranks_end_when_rank_0_is_gone(tmp_path: Path, cache_dir: Path) -> None:
    asked = request(cache_dir, devices_per_trial=2, epochs=2)
    seen: list[int] = []

    class FailingReporter(RecordingReporter):
        def report(self, measurement: Measurement) -> Any:
            seen.extend(child.pid for child in psutil.Process().children())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(asked, FileCheckpointStore(tmp_path), FailingReporter())
    assert len(seen) == 1
    assert not psutil.pid_exists(seen[0])


@pytest.mark.slow
def test_norms_over_all_ranks_need_gpus(tmp_path: Path, cache_dir: Path) -> None:
    asked = request(cache_dir, model="simple_cnn", devices_per_trial=2, sync_batch_norm=True)
    with pytest.raises(BadConfigError, match="sync_batch_norm is true, which needs GPUs"):
        run(asked, FileCheckpointStore(tmp_path))


def test_each_rank_has_its_own_device() -> None:
    assert [rank_device("cuda:1", rank) for rank in range(3)] == ["cuda:1", "cuda:2", "cuda:3"]
    assert [rank_device("cpu", rank) for rank in range(2)] == ["cpu", "cpu"]


def test_a_request_survives_its_way_to_another_process(cache_dir: Path) -> None:
    asked = small_request(cache_dir)
    assert TrialRequest.from_json(asked.to_json()) == asked


def test_several_devices_do_not_go_with_compilation() -> None:
    config = CLASSIFIER_SCHEMA.complete(
        {"data": "digits", "devices_per_trial": 2, "compile": True}
    )
    (problem,) = CLASSIFIER_SCHEMA.problems(config)
    assert (problem.key, problem.message) == (
        "devices_per_trial",
        "is 2, which does not go with compile: true",
    )
