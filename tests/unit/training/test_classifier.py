"""A trial trains, reports, keeps its checkpoints and ends as the contract says."""

import math
from pathlib import Path

import pytest
import torch

from hpo.domain.decision import Action
from hpo.domain.objective import At, Direction, Objective
from hpo.training.config import METRICS, ClassifierConfig
from hpo.training.data.batch import batch_bounds
from hpo.training.data.prepare import prepare_data
from hpo.training.keeper import LAST_EVERY_S
from hpo.training.task import BadConfigError, OutcomeKind, PublishedCheckpoint
from hpo.training.tasks.classifier import evaluate_checkpoint, load_classifier
from tests.unit.training.trials import RecordingReporter, SteppingClock, run, small_request
from tracking.checkpoints import CheckpointDamagedError, FileCheckpointStore, weights_digest


def test_every_epoch_is_reported_in_order_with_the_declared_metrics(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    outcome, reporter = run(small_request(cache_dir), store)
    assert outcome.kind is OutcomeKind.FINISHED
    assert [m.epoch for m in reporter.measurements] == [1, 2, 3, 4]
    assert [m.examples_seen for m in reporter.measurements] == [1257, 2514, 3771, 5028]
    for measurement in reporter.measurements:
        assert tuple(measurement.metrics) == METRICS
        assert all(math.isfinite(value) for value in measurement.metrics.values())
    losses = [m.metrics["train_loss"] for m in reporter.measurements]
    assert losses == sorted(losses, reverse=True)


def test_timing_is_measured_by_the_clock(cache_dir: Path, store: FileCheckpointStore) -> None:
    _, reporter = run(small_request(cache_dir), store, clock=SteppingClock(0.5))
    metrics = reporter.measurements[0].metrics
    # two readings at the start, three for each of 7 batches (of which one step lies between the
    # two around its data), one after training, one after validation
    assert metrics["epoch_s"] == 0.5 * 24
    assert metrics["examples_per_s"] == 1257 / (0.5 * 22)
    assert metrics["data_s"] == 0.5 * 7
    assert metrics["compute_s"] == 0.5 * 15


def test_the_reported_rate_is_that_of_the_last_update(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    _, reporter = run(small_request(cache_dir), store)
    rates = [m.metrics["lr"] for m in reporter.measurements]
    assert rates[0] == 3e-3
    assert rates[3] == pytest.approx(3e-3 * (1 + math.cos(math.pi * 20 / 21)) / 2)


def test_the_best_checkpoint_is_the_lowest_loss_and_evaluates_to_it_exactly(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    # a rate that is far too high makes the loss jump, so that the best is not the last
    request = small_request(cache_dir, {"lr": 0.3, "schedule": "constant", "epochs": 3})
    _, reporter = run(request, store)
    losses = [m.metrics["val_loss"] for m in reporter.measurements]
    best = reporter.newest("best")
    assert best.epoch == 1 + losses.index(min(losses))
    assert best.epoch != 3
    scores = evaluate_checkpoint(request, store, best.uri, best.sha256, "val")
    assert scores["loss"] == min(losses)
    assert scores["accuracy"] == reporter.measurements[best.epoch - 1].metrics["val_accuracy"]
    assert store.open(best.uri, best.sha256).state["metrics"]["val_loss"] == min(losses)


def test_a_maximised_metric_keeps_its_highest_epoch(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    objective = Objective(metric="val_accuracy", direction=Direction.MAXIMIZE)
    _, reporter = run(small_request(cache_dir, objective=objective), store)
    values = [m.metrics["val_accuracy"] for m in reporter.measurements]
    assert reporter.newest("best").epoch == 1 + values.index(max(values))


def test_at_last_the_best_is_the_last_epoch(cache_dir: Path, store: FileCheckpointStore) -> None:
    objective = Objective(metric="lr", direction=Direction.MAXIMIZE, at=At.LAST)
    _, reporter = run(small_request(cache_dir, objective=objective), store)
    assert reporter.newest("best").epoch == 4


def test_the_outcome_names_the_weights_of_the_last_epoch(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    request = small_request(cache_dir)
    outcome, reporter = run(request, store)
    last = reporter.newest("last")
    card = prepare_data(request.config, cache_dir, 0)
    model = load_classifier(request.config, card, store, last.uri, last.sha256)
    assert weights_digest(model.state_dict()) == outcome.weights_sha256
    assert not model.training


def test_only_the_newest_of_each_kind_is_left(cache_dir: Path, store: FileCheckpointStore) -> None:
    store.put("best-00099", {}, {"left by": "an attempt that died"})
    _, reporter = run(small_request(cache_dir), store, clock=SteppingClock(LAST_EVERY_S))
    assert [c.epoch for kind, c in reporter.checkpoints if kind == "last"] == [1, 2, 3, 4]
    newest = [reporter.newest(kind).uri for kind in ("best", "last")]
    assert store.list() == sorted(newest)
    assert "00004" in reporter.newest("last").uri


class CheckingReporter(RecordingReporter):
    """Looks at the store whenever a checkpoint is announced."""

    def __init__(self, store: FileCheckpointStore) -> None:
        super().__init__()
        self._store = store

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        super().published(kind, checkpoint)
        state = self._store.open(checkpoint.uri, checkpoint.sha256).state
        assert state["kind"] == kind
        assert state["epoch"] == checkpoint.epoch
        listed = self._store.list()
        for earlier_kind in ("best", "last"):
            earlier = [c.uri for name, c in self.checkpoints if name == earlier_kind][-2:]
            assert set(earlier) <= set(listed) or earlier_kind != kind
        if kind == "last":
            assert self.newest("best").uri in listed


def test_what_is_announced_is_whole_and_what_it_replaces_is_still_there(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    reporter = CheckingReporter(store)
    run(small_request(cache_dir), store, reporter, SteppingClock(LAST_EVERY_S))
    assert len(reporter.checkpoints) >= 6
    assert [kind for kind, _ in reporter.checkpoints][:2] == ["best", "last"]


def test_checkpoints_are_ten_seconds_apart_except_at_the_end(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    # an epoch reads the clock 26 times and takes 4.2 s: the third crosses 10 s, the last ends
    clock = SteppingClock(0.16)
    _, reporter = run(small_request(cache_dir), store, clock=clock)
    assert [c.epoch for kind, c in reporter.checkpoints if kind == "last"] == [3, 4]


@pytest.mark.parametrize("action", [Action.PAUSE, Action.PRUNE, Action.STOP])
def test_every_decision_to_leave_is_obeyed_after_a_checkpoint(
    cache_dir: Path, store: FileCheckpointStore, action: Action
) -> None:
    reporter = RecordingReporter(leave_after=2, action=action)
    outcome, _ = run(small_request(cache_dir), store, reporter)
    assert outcome.kind is OutcomeKind.ENDED_BY_DECISION
    assert outcome.message == "the test wants it"
    assert outcome.weights_sha256 is not None
    assert len(reporter.measurements) == 2
    assert reporter.newest("last").epoch == 2


def test_long_epochs_give_signs_of_life(cache_dir: Path, store: FileCheckpointStore) -> None:
    _, reporter = run(small_request(cache_dir), store, clock=SteppingClock(0.2))
    in_first_epoch = [fraction for epoch, fraction in reporter.fractions if epoch == 1]
    assert in_first_epoch == [400 / 1257, 800 / 1257, 1200 / 1257]
    _, quick = run(small_request(cache_dir), store, clock=SteppingClock(0.01))
    assert quick.fractions == []


def test_a_diverging_trial_ends_with_epoch_and_batch(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    request = small_request(cache_dir, {"optimizer": "sgd", "model": "mlp", "lr": 1e30})
    outcome, reporter = run(request, store)
    assert outcome.kind is OutcomeKind.DIVERGED
    assert outcome.weights_sha256 is None
    assert "in batch 2 of epoch 1" in outcome.message
    assert reporter.measurements == []
    assert reporter.checkpoints == []


def test_an_unknown_objective_is_refused_before_training(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    request = small_request(cache_dir, objective=Objective(metric="val_f1"))
    with pytest.raises(BadConfigError, match="'val_f1', must be one of train_loss"):
        run(request, store)


def test_a_damaged_checkpoint_is_not_resumed(
    tmp_path: Path, cache_dir: Path, store: FileCheckpointStore
) -> None:
    _, reporter = run(small_request(cache_dir), store, RecordingReporter(leave_after=2))
    last = reporter.newest("last")
    best = tmp_path / reporter.newest("best").uri
    whole = best.read_bytes()
    best.write_bytes(whole[:-1])
    with pytest.raises(CheckpointDamagedError, match="best"):
        run(small_request(cache_dir), store, resume=last)
    best.write_bytes(whole)
    (tmp_path / last.uri).unlink()
    with pytest.raises(CheckpointDamagedError, match="missing"):
        run(small_request(cache_dir), store, resume=last)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_any_split_can_be_evaluated(
    cache_dir: Path, store: FileCheckpointStore, split: str
) -> None:
    learnable = {"model": "mlp", "width": 16, "lr": 0.01, "augment": 0.0}
    request = small_request(cache_dir, learnable)
    _, reporter = run(request, store)
    last = reporter.newest("last")
    scores = evaluate_checkpoint(request, store, last.uri, last.sha256, split)
    assert set(scores) == {"loss", "accuracy"}
    assert scores["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("num_examples", "batch_size", "expected"),
    [
        (10, 4, [(0, 4), (4, 8), (8, 10)]),
        (9, 4, [(0, 4), (4, 9)]),
        (8, 4, [(0, 4), (4, 8)]),
        (3, 4, [(0, 3)]),
        (1, 4, [(0, 1)]),
        (3, 1, [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_batches_cover_every_example_and_leave_none_alone(
    num_examples: int, batch_size: int, expected: list[tuple[int, int]]
) -> None:
    assert list(batch_bounds(num_examples, batch_size)) == expected


@pytest.mark.parametrize("model", ["simple_cnn", "mlp"])
def test_a_batch_size_that_leaves_one_example_over_trains(
    cache_dir: Path, store: FileCheckpointStore, model: str
) -> None:
    request = small_request(cache_dir, {"batch_size": 157, "model": model, "epochs": 2})
    sizes = ClassifierConfig.parse(request.config).split_sizes()
    assert sizes is not None
    assert sizes.num_train % 157 == 1
    outcome, reporter = run(request, store)
    assert outcome.kind is OutcomeKind.FINISHED
    assert reporter.measurements[-1].examples_seen == 2 * 1257


def test_the_number_of_threads_is_the_requests(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    torch.set_num_threads(2)
    run(small_request(cache_dir, {"epochs": 2}), store)
    assert torch.get_num_threads() == 1
