"""How one trial is trained: read this first. Knows no study, no database and no tracking.

`trainee.py` lists the parts, `epoch.py` makes the updates, `metrics.py` evaluates, `keeper.py`
writes checkpoints.
"""

from typing import Protocol

from torch import nn

from hpo.clock import Clock
from hpo.domain.decision import Action, Decision
from hpo.domain.trial import Measurement
from hpo.training.epoch import train_epoch
from hpo.training.log import say
from hpo.training.memory import peak_memory_bytes
from hpo.training.metrics import DivergedError, evaluate
from hpo.training.task import OutcomeKind, PublishedCheckpoint, Reporter, TrialOutcome
from hpo.training.trainee import Trainee
from tracking.checkpoints import weights_digest


class Keeper(Protocol):
    """Who keeps checkpoints; `hpo.training.keeper.CheckpointKeeper`."""

    def restore(self, last: PublishedCheckpoint) -> None:
        """Put the training where a checkpoint `last` was written."""
        ...

    def consider(self, measurement: Measurement, model: nn.Module) -> None:
        """Look at a measured epoch and the weights that were measured."""
        ...

    def keep(self, epoch: int, *, is_due: bool) -> None:
        """Write checkpoints after an epoch, when it is time."""
        ...


def train(
    trainee: Trainee,
    keeper: Keeper,
    reporter: Reporter,
    clock: Clock,
    resume: PublishedCheckpoint | None,
) -> TrialOutcome:
    """Train to the last epoch, until patience is over, or until the reporter decides otherwise.

    Each epoch is trained, evaluated and reported; then checkpoints are kept and the decision is
    obeyed. The weights that are evaluated are those that are saved: their average, where there is
    one. A loss that is not finite ends the trial before it can reach the weights.

    Args:
        trainee: freshly seeded; `resume` moves all of it to where that checkpoint was written.
        keeper: writes the checkpoints.
        reporter: hears of every epoch and decides.
        clock: measures epochs.
        resume: a checkpoint of kind `last`, or None to begin.
    """
    progress, patience = trainee.progress, trainee.patience
    if resume is not None:
        keeper.restore(resume)
        trainee.ranks.share(trainee.state, str(trainee.train.labels_N.device))
    while progress.epoch < trainee.num_epochs and not patience.is_over:
        epoch = progress.epoch + 1
        trainee.streams.begin_epoch(epoch, trainee.ranks.rank)
        try:
            measurement = _train_and_evaluate(trainee, epoch, keeper, reporter, clock)
        except DivergedError as error:
            return TrialOutcome(kind=OutcomeKind.DIVERGED, message=str(error))
        progress.epoch = epoch
        is_spent = patience.see(measurement.metrics)
        decision = _agreed(trainee, reporter.report(measurement))
        is_over = epoch == trainee.num_epochs or is_spent or not decision.is_continue
        keeper.keep(epoch, is_due=is_over)
        if not decision.is_continue:
            return _outcome(trainee, OutcomeKind.ENDED_BY_DECISION, decision.reason)
    if patience.is_over:
        say(patience.reason)
    return _outcome(trainee, OutcomeKind.FINISHED, patience.reason)


def _train_and_evaluate(
    trainee: Trainee, epoch: int, keeper: Keeper, reporter: Reporter, clock: Clock
) -> Measurement:
    """Return the metrics of one epoch, as `config.METRICS` declares them."""
    started_s = clock.monotonic()
    trained = train_epoch(trainee, epoch, reporter, clock)
    with trainee.average.applied():
        try:
            with trainee.precision.autocast():
                validated = evaluate(
                    trainee.model, trainee.val, "val", trainee.loss.plain, trainee.ranks
                )
        except DivergedError as error:
            raise DivergedError(f"{error} of epoch {epoch}") from error
        metrics = {
            "train_loss": trained.loss,
            "train_accuracy": trained.accuracy,
            "val_loss": validated.loss,
            "val_accuracy": validated.accuracy,
            "val_macro_f1": validated.macro_f1,
            "lr": trained.lr,
            "grad_norm": trained.grad_norm,
            "grad_norm_max": trained.grad_norm_max,
            "update_ratio": trained.update_ratio,
            "epoch_s": clock.monotonic() - started_s,
            "data_s": trained.data_s,
            "compute_s": trained.train_s - trained.data_s,
            # a clock that stands still, as in tests, must not divide by zero
            "examples_per_s": trained.num_examples / max(trained.train_s, 1e-9),
            "peak_memory_bytes": peak_memory_bytes(trainee.model),
        }
        measurement = Measurement(
            epoch=epoch, examples_seen=trainee.progress.examples_seen, metrics=metrics
        )
        keeper.consider(measurement, trainee.model)
    trainee.diary.write(measurement, validated)
    return measurement


def _agreed(trainee: Trainee, decision: Decision) -> Decision:
    """Return what rank 0 was told to do, in every rank."""
    action, reason = trainee.ranks.agree([decision.action.value, decision.reason])
    return Decision(action=Action(action), reason=reason)


def _outcome(trainee: Trainee, kind: OutcomeKind, message: str) -> TrialOutcome:
    with trainee.average.applied():
        digest = weights_digest(trainee.model.state_dict())
    return TrialOutcome(kind=kind, message=message, weights_sha256=digest)
