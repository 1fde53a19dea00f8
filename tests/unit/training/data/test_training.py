"""A trial comes out the same however its images are held, and validates on what was stored."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from hpo.training.data.dataset import load_data
from hpo.training.tasks.classifier import load_classifier
from tests.unit.training.trials import RecordingReporter, run, small_request
from tracking.checkpoints import FileCheckpointStore

BUSY = {"augment": 1.0, "epochs": 2, "sampling": "balanced"}


def trained(
    cache_dir: Path, folder: Path, changes: dict[str, Any]
) -> tuple[str | None, RecordingReporter]:
    outcome, reporter = run(
        small_request(cache_dir, {**BUSY, **changes}), FileCheckpointStore(folder, "trial")
    )
    return outcome.weights_sha256, reporter


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_streaming_trains_the_very_same_weights(
    cache_dir: Path, tmp_path: Path, workers: int
) -> None:
    resident, told = trained(cache_dir, tmp_path / "a", {"loader.mode": "resident"})
    streaming = {"loader.mode": "streaming", "loader.workers": workers}
    streamed, also_told = trained(cache_dir, tmp_path / "b", streaming)
    assert resident is not None
    assert streamed == resident
    assert also_told.model_metrics() == told.model_metrics()


def test_validation_images_are_never_varied(cache_dir: Path, tmp_path: Path) -> None:
    store = FileCheckpointStore(tmp_path, "trial")
    request = small_request(cache_dir, BUSY)
    _, reporter = run(request, store)
    dataset = load_data(request.config, cache_dir, request.split_seed, "cpu")
    last = reporter.newest("last")
    model = load_classifier(request.config, dataset.card, store, last.uri, last.sha256)
    val = dataset["val"]
    with torch.inference_mode():
        loss = functional.cross_entropy(model(val.images_NCHW), val.labels_N)
    assert reporter.measurements[-1].metrics["val_loss"] == pytest.approx(float(loss), rel=1e-5)


def test_another_replicate_validates_on_other_images(cache_dir: Path, tmp_path: Path) -> None:
    losses = []
    for seed in (1, 2):
        request = small_request(cache_dir, {"resplit": True, "epochs": 2}, seeds={"resplit": seed})
        _, reporter = run(request, FileCheckpointStore(tmp_path / str(seed), "trial"))
        losses.append(reporter.measurements[-1].metrics["val_loss"])
    assert losses[0] != losses[1]
