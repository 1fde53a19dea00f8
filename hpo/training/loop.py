"""How one trial is trained. Knows no study, no database and no tracking.

Shapes: N images, C channels, H height, W width, K classes.
"""

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from hpo.clock import Clock
from hpo.domain.trial import Measurement
from hpo.training.augment import Augmentation
from hpo.training.data.resident import Split
from hpo.training.determinism import RandomStreams
from hpo.training.keeper import CheckpointKeeper
from hpo.training.metrics import DivergedError, Scores, batch_bounds, evaluate, num_correct
from hpo.training.optimizers import set_learning_rate
from hpo.training.schedules import Schedule
from hpo.training.state import Progress
from hpo.training.task import OutcomeKind, PublishedCheckpoint, Reporter, TrialOutcome
from tracking.checkpoints import weights_digest

PROGRESS_EVERY_S: Final = 1.0
"""Between two signs of life within an epoch; shorter epochs send none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainee:
    """What is trained, with what, on what."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    augmentation: Augmentation
    streams: RandomStreams
    progress: Progress
    """Whole epochs done; the loop moves it."""
    train: Split
    val: Split
    batch_size: int
    num_epochs: int


def train(
    trainee: Trainee,
    keeper: CheckpointKeeper,
    reporter: Reporter,
    clock: Clock,
    resume: PublishedCheckpoint | None,
) -> TrialOutcome:
    """Train to the last epoch, or until the reporter decides otherwise.

    Each epoch is trained, evaluated and reported; then checkpoints are kept and the decision is
    obeyed. A loss that is not finite ends the trial before it can reach the weights.

    Args:
        trainee: freshly seeded; `resume` moves all of it to where that checkpoint was written.
        keeper: writes the checkpoints.
        reporter: hears of every epoch and decides.
        clock: measures epochs.
        resume: a checkpoint of kind `last`, or None to begin.
    """
    if resume is not None:
        keeper.restore(resume)
    while trainee.progress.epoch < trainee.num_epochs:
        epoch = trainee.progress.epoch + 1
        try:
            metrics = _train_and_evaluate(trainee, epoch, reporter, clock)
        except DivergedError as error:
            return TrialOutcome(kind=OutcomeKind.DIVERGED, message=str(error))
        trainee.progress.epoch = epoch
        measurement = Measurement(
            epoch=epoch, examples_seen=trainee.progress.examples_seen, metrics=metrics
        )
        keeper.consider(measurement, trainee.model)
        decision = reporter.report(measurement)
        is_over = epoch == trainee.num_epochs or not decision.is_continue
        keeper.keep(epoch, is_due=is_over)
        if not decision.is_continue:
            return _outcome(OutcomeKind.ENDED_BY_DECISION, decision.reason, trainee.model)
    return _outcome(OutcomeKind.FINISHED, "", trainee.model)


def _outcome(kind: OutcomeKind, message: str, model: nn.Module) -> TrialOutcome:
    return TrialOutcome(
        kind=kind, message=message, weights_sha256=weights_digest(model.state_dict())
    )


def _train_and_evaluate(
    trainee: Trainee, epoch: int, reporter: Reporter, clock: Clock
) -> dict[str, float]:
    """Return the metrics of one epoch, as `config.METRICS` declares them."""
    started_s = clock.monotonic()
    trained = _train_epoch(trainee, epoch, reporter, clock)
    trained_s = clock.monotonic()
    try:
        validated = evaluate(trainee.model, trainee.val, "val")
    except DivergedError as error:
        raise DivergedError(f"{error} of epoch {epoch}") from error
    return {
        "train_loss": trained.scores.loss,
        "train_accuracy": trained.scores.accuracy,
        "val_loss": validated.loss,
        "val_accuracy": validated.accuracy,
        "lr": trained.lr,
        "grad_norm": trained.grad_norm,
        "epoch_s": clock.monotonic() - started_s,
        # a clock that stands still, as in tests, must not divide by zero
        "examples_per_s": len(trainee.train) / max(trained_s - started_s, 1e-9),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrainedEpoch:
    scores: Scores
    """Means over the epoch's own updates."""
    grad_norm: float
    lr: float
    """Of the last update."""


def _train_epoch(trainee: Trainee, epoch: int, reporter: Reporter, clock: Clock) -> _TrainedEpoch:
    """Update the weights once for each batch of a new random order."""
    trainee.model.train()
    weights = list(trainee.model.parameters())
    device = trainee.train.labels_N.device
    num_train = len(trainee.train)
    order_N = torch.randperm(num_train, generator=trainee.streams.data_order).to(device)
    loss_sum = torch.zeros((), dtype=torch.float64, device=device)
    correct_sum = torch.zeros((), dtype=torch.int64, device=device)
    norm_sum, num_batches, lr = 0.0, 0, 0.0
    told_s = clock.monotonic()
    for start, end in batch_bounds(num_train, trainee.batch_size):
        indices = order_N[start:end]
        labels_N = trainee.train.labels_N.index_select(0, indices)
        images_NCHW = trainee.augmentation(trainee.train.images_NCHW.index_select(0, indices))
        lr = trainee.schedule.learning_rate(trainee.progress.step)
        set_learning_rate(trainee.optimizer, lr)

        logits_NK = trainee.model(images_NCHW)
        loss = functional.cross_entropy(logits_NK, labels_N)
        trainee.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        loss = loss.detach()
        num_batches += 1
        norm_sum += _finite_grad_norm(weights, loss, epoch, num_batches)
        trainee.optimizer.step()

        trainee.progress.step += 1
        loss_sum += loss.double() * (end - start)
        correct_sum += num_correct(logits_NK.detach(), labels_N)
        now_s = clock.monotonic()
        if now_s - told_s >= PROGRESS_EVERY_S:
            reporter.progress(epoch, end / num_train)
            told_s = now_s
    trainee.progress.examples_seen += num_train
    return _TrainedEpoch(
        scores=Scores(loss=float(loss_sum) / num_train, accuracy=float(correct_sum) / num_train),
        grad_norm=norm_sum / num_batches,
        lr=lr,
    )


def _finite_grad_norm(weights: list[nn.Parameter], loss: Tensor, epoch: int, batch: int) -> float:
    """Return the norm of the whole gradient.

    Raises:
        DivergedError: the loss or the norm is not finite; the update must not be made.
    """
    norm = torch.nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
    # One transfer for both: the sum is finite only when both are. An update that is made because
    # the check comes late cannot be taken back.
    if not math.isfinite(float(loss + norm)):
        name, value = ("train_loss", loss) if not loss.isfinite() else ("grad_norm", norm)
        raise DivergedError(f"{name} is {float(value):g} in batch {batch} of epoch {epoch}")
    return float(norm)
