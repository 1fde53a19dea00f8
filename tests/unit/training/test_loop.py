"""The loop checks before it steps, and evaluates without augmentation or dropout."""

import pytest
import torch
from torch import nn

from hpo.domain.objective import Objective
from hpo.training.data.resident import Split
from hpo.training.determinism import seeded_generator
from hpo.training.keeper import CheckpointKeeper
from hpo.training.loop import train
from hpo.training.metrics import DivergedError, evaluate
from hpo.training.models.dropout import StreamDropout
from hpo.training.state import Progress
from hpo.training.task import OutcomeKind, TrialOutcome
from tests.unit.training.parts import linear_model, split, trainee
from tests.unit.training.trials import RecordingReporter, SteppingClock
from tracking.checkpoints import FileCheckpointStore


def train_linear(
    store: FileCheckpointStore, train_split: Split, val_split: Split
) -> tuple[TrialOutcome, nn.Module, Progress, RecordingReporter]:
    """Train one epoch of a linear model in batches of 4."""
    model = linear_model()
    trained = trainee(model, train_split, val_split)
    reporter, clock = RecordingReporter(), SteppingClock()
    objective = Objective(metric="val_loss")
    keeper = CheckpointKeeper(store, reporter, clock, trained.state, objective)
    return train(trained, keeper, reporter, clock, None), model, trained.progress, reporter


def test_an_epoch_updates_once_for_each_batch_and_counts_every_example(
    store: FileCheckpointStore,
) -> None:
    outcome, model, progress, reporter = train_linear(store, split(10), split(4))
    assert outcome.kind is OutcomeKind.FINISHED
    assert progress == Progress(epoch=1, step=3, examples_seen=10)
    assert any(weight.abs().max() > 0 for weight in model.parameters())
    assert reporter.measurements[0].metrics["grad_norm"] > 0


def test_means_are_weighted_by_the_size_of_the_batch(store: FileCheckpointStore) -> None:
    train_split = split(6)
    train_split.labels_N.fill_(0)
    _, _, _, reporter = train_linear(store, train_split, split(4))
    # ln 2 before the first update of 4 images; its gradient moves each logit by 0.1 * (1 + 1) / 2
    # through weight and bias, so that the 2 images of the second see logits 0.1 and -0.1
    second = torch.tensor(-0.2).exp().log1p().item()
    expected = (4 * torch.tensor(2.0).log().item() + 2 * second) / 6
    assert reporter.measurements[0].metrics["train_loss"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("value", "name"), [(float("nan"), "train_loss is nan"), (3e38, "grad_norm is inf")]
)
def test_divergence_is_caught_before_the_update(
    store: FileCheckpointStore, value: float, name: str
) -> None:
    outcome, model, progress, reporter = train_linear(store, split(10, value), split(4))
    assert outcome.kind is OutcomeKind.DIVERGED
    assert outcome.message == f"{name} in batch 1 of epoch 1"
    assert progress.step == 0
    assert all(torch.equal(weight, torch.zeros_like(weight)) for weight in model.parameters())
    assert (reporter.measurements, store.list()) == ([], [])


def test_a_validation_loss_that_is_not_finite_diverges_too(store: FileCheckpointStore) -> None:
    outcome, _, _, reporter = train_linear(store, split(10), split(4, float("nan")))
    assert outcome.kind is OutcomeKind.DIVERGED
    assert outcome.message == "val_loss is nan in batch 1 of epoch 1"
    assert (reporter.measurements, store.list()) == ([], [])


def test_evaluation_drops_nothing_and_counts_every_image() -> None:
    model = nn.Sequential(StreamDropout(0.9, seeded_generator(0)), linear_model()).train()
    with torch.no_grad():
        for weight in model.parameters():
            weight[0] = 1.0
    scores = evaluate(model, split(1001), "test")
    assert scores.accuracy == 501 / 1001  # always class 0
    losses = [torch.tensor(sign).exp().log1p().item() for sign in (-2.0, 2.0)]
    assert scores.loss == pytest.approx((501 * losses[0] + 500 * losses[1]) / 1001, abs=1e-6)


def test_evaluation_names_the_split_and_the_batch_that_is_not_finite() -> None:
    images = split(1000)
    images.images_NCHW[700] = float("inf")
    model = linear_model()
    with pytest.raises(DivergedError, match="test_loss is nan in batch 2"):
        evaluate(model, images, "test")
