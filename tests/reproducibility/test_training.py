"""A trial repeats itself and resumes itself, bit for bit, on one machine."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from hpo.domain.objective import Direction, Objective
from hpo.domain.search_space import Value
from hpo.training.determinism import STREAM_NAMES
from tests.unit.training.trials import RecordingReporter, SteppingClock, run, small_request
from tracking.checkpoints import FileCheckpointStore

EVERYTHING: Mapping[str, Value] = {
    "optimizer": "adamw",
    "batch_size": 198,  # leaves a last batch of 69, whose third part is short too
    "accumulate": 3,
    "clip_norm": 0.5,
    "ema_decay": 0.9,
    "ema_start": 1,
    "schedule": "one_cycle",
    "warmup_epochs": 1,
    "loss": "focal",
    "label_smoothing": 0.1,
    "class_weights": "auto",
    "sampling": "balanced",
    "augment": 0.7,
    "augment.erasing": 0.5,
    "augment.rand_ops": 1,
    "augment.mixup": 0.2,
    "augment.cutmix": 1.0,
    "precision": "bf16",
    "fp32_layers": "network.head",
    "checkpoint_activations": True,
    "lr_rule": "sqrt",
    "patience": 3,
    "keep_every": 2,
    "backbone_lr_scale": 0.5,
    "decay_norms": True,
}
"""Every part that has a state or draws."""

CONFIGS: Mapping[str, Mapping[str, Value]] = {
    "cnn-adamw": {},
    "cnn-sgd": {"optimizer": "sgd", "lr": 0.05},
    "mlp-adamw": {"model": "mlp", "schedule": "constant"},
    "cnn-rmsprop": {"optimizer": "rmsprop", "schedule": "step", "step_epochs": 2},
    "everything": EVERYTHING,
    "everything-fp16": {**EVERYTHING, "precision": "fp16", "optimizer": "sgd", "nesterov": True},
}
"""All with dropout and augmentation on."""


@pytest.mark.parametrize("name", CONFIGS)
def test_equal_requests_train_equal_weights(tmp_path: Path, cache_dir: Path, name: str) -> None:
    request = small_request(cache_dir, CONFIGS[name])
    runs = [run(request, FileCheckpointStore(tmp_path / f"{index}")) for index in range(2)]
    (first, first_told), (second, second_told) = runs
    assert first.weights_sha256 is not None
    assert first == second
    assert first_told.model_metrics() == second_told.model_metrics()
    # the checkpoints are equal files, so their hashes can be compared
    kinds = [(kind, c.sha256) for kind, c in first_told.checkpoints]
    assert kinds == [(kind, c.sha256) for kind, c in second_told.checkpoints]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_resumed_trial_ends_as_if_it_had_never_stopped(
    tmp_path: Path, cache_dir: Path, name: str, epoch: int
) -> None:
    request = small_request(cache_dir, CONFIGS[name])
    whole, whole_told = run(request, FileCheckpointStore(tmp_path / "whole"))
    store = FileCheckpointStore(tmp_path / "resumed")
    _, before = run(request, store, RecordingReporter(leave_after=epoch))
    resumed, after = run(request, store, resume=before.newest("last"))
    assert resumed == whole
    assert before.model_metrics() + after.model_metrics() == whole_told.model_metrics()
    seen = [m.examples_seen for m in before.measurements + after.measurements]
    assert seen == [m.examples_seen for m in whole_told.measurements]
    for kind in ("best", "last"):
        assert after.newest(kind).sha256 == whole_told.newest(kind).sha256


def test_a_resumed_trial_remembers_a_best_that_came_before(
    tmp_path: Path, cache_dir: Path
) -> None:
    # the highest loss is asked for, so that the best is an early epoch
    objective = Objective(metric="val_loss", direction=Direction.MAXIMIZE)
    request = small_request(cache_dir, {"epochs": 4}, objective)
    _, whole = run(request, FileCheckpointStore(tmp_path / "whole"))
    best_epoch = whole.newest("best").epoch
    assert best_epoch < 3
    store = FileCheckpointStore(tmp_path / "resumed")
    _, before = run(request, store, RecordingReporter(leave_after=best_epoch + 1))
    _, after = run(request, store, resume=before.newest("last"))
    assert [kind for kind, _ in after.checkpoints] == ["best", "last"]
    assert after.newest("best") == before.newest("best")
    assert store.list() == sorted(after.newest(kind).uri for kind in ("best", "last"))


def test_an_attempt_that_died_between_best_and_last_is_resumed(
    tmp_path: Path, cache_dir: Path
) -> None:
    class DyingReporter(RecordingReporter):
        """Dies as soon as the best of an epoch is on disk."""

        def published(self, kind: str, checkpoint: object) -> None:
            super().published(kind, checkpoint)  # type: ignore[arg-type]
            if kind == "best" and self.newest("best").epoch == 3:
                raise KeyboardInterrupt

    request = small_request(cache_dir)
    whole, whole_told = run(request, FileCheckpointStore(tmp_path / "whole"))
    store = FileCheckpointStore(tmp_path / "resumed")
    dying = DyingReporter()
    with pytest.raises(KeyboardInterrupt):
        run(request, store, dying, SteppingClock(10.0))
    assert dying.newest("last").epoch == 2
    resumed, after = run(request, store, resume=dying.newest("last"))
    assert resumed == whole
    assert after.checkpoints[0][1].epoch == 2
    assert after.newest("best").sha256 == whole_told.newest("best").sha256


def test_a_finished_trial_resumes_to_its_end_without_training(
    tmp_path: Path, cache_dir: Path
) -> None:
    request = small_request(cache_dir)
    store = FileCheckpointStore(tmp_path / "trial")
    finished, told = run(request, store)
    again, told_again = run(request, store, resume=told.newest("last"))
    assert again == finished
    assert told_again.measurements == []


@pytest.mark.parametrize("stream", STREAM_NAMES)
def test_every_stream_matters(tmp_path: Path, cache_dir: Path, stream: str) -> None:
    outcomes = [
        run(
            small_request(cache_dir, {"epochs": 2}, seeds={stream: seed}),
            FileCheckpointStore(tmp_path / f"{seed}"),
        )[0]
        for seed in (100, 101)
    ]
    assert outcomes[0].weights_sha256 != outcomes[1].weights_sha256


@pytest.mark.parametrize(
    ("stream", "off"), [("augmentation", {"augment": 0.0}), ("dropout", {"dropout": 0.0})]
)
def test_a_stream_that_is_not_drawn_from_moves_nothing(
    tmp_path: Path, cache_dir: Path, stream: str, off: Mapping[str, Value]
) -> None:
    outcomes = [
        run(
            small_request(cache_dir, {"epochs": 2, **off}, seeds={stream: seed}),
            FileCheckpointStore(tmp_path / f"{seed}"),
        )[0]
        for seed in (100, 101)
    ]
    assert outcomes[0].weights_sha256 == outcomes[1].weights_sha256
