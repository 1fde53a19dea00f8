"""The built-in image classifier: trains a trial, evaluates and loads what it left."""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor, nn

from hpo.clock import Clock, SystemClock
from hpo.domain.decision import CONTINUE, Decision
from hpo.domain.search_space import Params
from hpo.domain.trial import Measurement
from hpo.training.config import METRICS, ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.data.source import TargetKind
from hpo.training.determinism import STREAM_NAMES, RandomStreams
from hpo.training.keeper import CheckpointKeeper
from hpo.training.log import say
from hpo.training.loop import train
from hpo.training.losses import build_loss
from hpo.training.metrics import evaluate
from hpo.training.models.classifier import Classifier, build_model
from hpo.training.precision import Precision
from hpo.training.ranks import Ranks, leading
from hpo.training.task import (
    BadConfigError,
    PublishedCheckpoint,
    Reporter,
    TrialOutcome,
    TrialRequest,
)
from hpo.training.tasks.aftermath import findings_of, write_beginning
from hpo.training.tasks.assembly import AVERAGE_PART, MODEL_PART, assemble, load
from tracking.checkpoints import Checkpoint, CheckpointStore


def train_trial(
    request: TrialRequest,
    reporter: Reporter,
    store: CheckpointStore,
    clock: Clock,
    resume: PublishedCheckpoint | None,
) -> TrialOutcome:
    """Train a trial from its beginning, or go on bit for bit from a checkpoint `last`.

    Args:
        request: decides the result, together with the machine.
        reporter: hears of every epoch and checkpoint, and decides whether to go on.
        store: the trial's own, which no other trial lists.
        clock: measures epochs and the time between checkpoints.
        resume: what an earlier attempt published last, or None.

    Raises:
        BadConfigError: the configuration, its data or the objective cannot be used.
        CheckpointDamagedError: `resume`, or the best that it names, is missing or damaged.
        DataDamagedError: the cache holds other data than was prepared.
    """
    if request.objective.metric not in METRICS:
        raise BadConfigError(
            f"the objective's metric is '{request.objective.metric}',"
            f" must be one of {', '.join(METRICS)}"
        )
    config = ClassifierConfig.parse(request.config)
    device = request.device
    is_resumed = resume is not None
    asked = {"request": request.to_json(), "is_resumed": is_resumed}
    with leading(asked, config.devices_per_trial, device) as ranks:
        dataset = load(request, device, ranks.num_ranks)
        for remark in dataset.remarks:
            say(remark)
        trainee = assemble(request, dataset, is_restored=is_resumed, ranks=ranks)
        keeper = CheckpointKeeper(
            store,
            reporter,
            clock,
            trainee.state,
            request.objective,
            keep_every=config.keep_every,
        )
        if not is_resumed:
            write_beginning(trainee)
        outcome = train(trainee, keeper, reporter, clock, resume)
        findings = findings_of(trainee, config, dataset, outcome)
    for finding in findings:
        say(finding)
    return replace(outcome, findings=findings)


def follow(request: TrialRequest, ranks: Ranks, device: str, *, is_resumed: bool) -> None:
    """Train along with rank 0, which reports and keeps checkpoints for all."""
    dataset = load(request, device, ranks.num_ranks)
    trainee = assemble(request, dataset, is_restored=is_resumed, ranks=ranks)
    resume = PublishedCheckpoint(uri="", sha256="", epoch=0, num_bytes=0) if is_resumed else None
    train(trainee, _Silent(), _Silent(), SystemClock(), resume)


class _Silent:
    """Reports nothing and keeps nothing; rank 0 does. Fulfils `Reporter` and `Keeper`."""

    def progress(self, epoch: int, fraction: float) -> None:
        """Drop it."""

    def report(self, measurement: Measurement) -> Decision:
        """Go on; rank 0 tells otherwise."""
        del measurement
        return CONTINUE

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        """Drop it."""

    def restore(self, last: PublishedCheckpoint) -> None:
        """Wait for what rank 0 shares."""

    def consider(self, measurement: Measurement, model: nn.Module) -> None:
        """Drop it."""

    def keep(self, epoch: int, *, is_due: bool) -> None:
        """Drop it."""


def evaluate_checkpoint(
    request: TrialRequest, store: CheckpointStore, uri: str, sha256: str, split: str
) -> dict[str, float]:
    """Return `loss` and `accuracy` of a checkpoint's weights on a split.

    Args:
        request: of the trial that the checkpoint belongs to.
        store: where the checkpoint is.
        uri: of a checkpoint of any kind.
        sha256: of its file.
        split: `train`, `val` or `test`.

    Raises:
        CheckpointDamagedError: the checkpoint is missing or damaged.
        DivergedError: the loss is not finite.
    """
    dataset = load(request, request.device)
    config = ClassifierConfig.parse(request.config)
    model = load_classifier(request.config, dataset.card, store, uri, sha256).to(request.device)
    kind = TargetKind(dataset.card.target_kind)
    loss = build_loss(config, kind, dataset["train"].labels_N).plain
    with Precision(config.precision, request.device).autocast():
        scores = evaluate(model, dataset[split], split, loss)
    return {"loss": scores.loss, "accuracy": scores.accuracy}


def load_classifier(
    config: Params, card: DataCard, store: CheckpointStore, uri: str, sha256: str
) -> Classifier:
    """Return the model of a checkpoint of any kind, on the CPU and in evaluation mode.

    Raises:
        CheckpointDamagedError: the checkpoint is missing or damaged.
    """
    # The streams serve only to lay the model out: its weights are replaced, its dropout is off.
    streams = RandomStreams(dict.fromkeys(STREAM_NAMES, 0))
    model = build_model(ClassifierConfig.parse(config), card, streams, is_restored=True)
    model.load_state_dict(_model_weights(store.open(uri, sha256)))
    return model.eval()


def _model_weights(checkpoint: Checkpoint) -> Mapping[str, Tensor]:
    """Return the weights that were evaluated, as the model's `state_dict` names them."""
    if checkpoint.state["kind"] != "last":
        return checkpoint.tensors
    weights: dict[str, Tensor] = {}
    for part in (MODEL_PART, AVERAGE_PART):  # the average takes the place of the weights
        prefix = f"{part}/"
        weights |= {
            name.removeprefix(prefix): tensor
            for name, tensor in checkpoint.tensors.items()
            if name.startswith(prefix)
        }
    return weights
