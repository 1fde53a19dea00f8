"""The built-in image classifier: trains a trial, evaluates and loads what it left."""

from collections.abc import Mapping
from typing import Final

from torch import Tensor

from hpo.clock import Clock
from hpo.domain.search_space import Params
from hpo.training.augment import Augmentation
from hpo.training.config import METRICS, ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.data.dataset import Dataset, load_data
from hpo.training.determinism import (
    STREAM_NAMES,
    RandomStreams,
    configure_device,
    configure_threads,
)
from hpo.training.keeper import CheckpointKeeper
from hpo.training.loop import Trainee, train
from hpo.training.metrics import batch_bounds, evaluate
from hpo.training.models.classifier import Classifier, build_model
from hpo.training.optimizers import OptimizerState, build_optimizer
from hpo.training.schedules import Schedule
from hpo.training.state import Progress, TrainState
from hpo.training.task import (
    BadConfigError,
    PublishedCheckpoint,
    Reporter,
    TrialOutcome,
    TrialRequest,
)
from tracking.checkpoints import Checkpoint, CheckpointStore

_MODEL: Final = "model"
"""The model's name among the parts of a checkpoint `last`."""


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
    trainee, state = _build(request)
    keeper = CheckpointKeeper(store, reporter, clock, state, request.objective)
    return train(trainee, keeper, reporter, clock, resume)


def evaluate_checkpoint(
    request: TrialRequest, store: CheckpointStore, uri: str, sha256: str, split: str
) -> dict[str, float]:
    """Return `loss` and `accuracy` of a checkpoint's weights on a split.

    Args:
        request: of the trial that the checkpoint belongs to.
        store: where the checkpoint is.
        uri: of a checkpoint of either kind.
        sha256: of its file.
        split: `train`, `val` or `test`.

    Raises:
        CheckpointDamagedError: the checkpoint is missing or damaged.
        DivergedError: the loss is not finite.
    """
    dataset = _load(request)
    model = load_classifier(request.config, dataset.card, store, uri, sha256).to(request.device)
    scores = evaluate(model, dataset[split], split)
    return {"loss": scores.loss, "accuracy": scores.accuracy}


def load_classifier(
    config: Params, card: DataCard, store: CheckpointStore, uri: str, sha256: str
) -> Classifier:
    """Return the model of a checkpoint of either kind, on the CPU and in evaluation mode.

    Raises:
        CheckpointDamagedError: the checkpoint is missing or damaged.
    """
    # The streams serve only to lay the model out: its weights are replaced, its dropout is off.
    streams = RandomStreams(dict.fromkeys(STREAM_NAMES, 0))
    model = build_model(ClassifierConfig.parse(config), card, streams)
    model.load_state_dict(_model_weights(store.open(uri, sha256)))
    return model.eval()


def _load(request: TrialRequest) -> Dataset:
    """Set torch up as the request says, and return its data."""
    configure_threads(request.num_threads)
    configure_device(request.device)
    return load_data(request.config, request.cache_dir, request.split_seed, request.device)


def _build(request: TrialRequest) -> tuple[Trainee, TrainState]:
    """Return everything freshly seeded, and the registry of what has a state."""
    config = ClassifierConfig.parse(request.config)
    dataset = _load(request)
    streams = RandomStreams(request.seeds, request.device)
    model = build_model(config, dataset.card, streams).to(request.device)
    optimizer = build_optimizer(config, model)
    steps_per_epoch = len(list(batch_bounds(dataset.card.num_train, config.batch_size)))
    progress = Progress()
    state = TrainState()
    state.register(_MODEL, model)
    state.register("optimizer", OptimizerState(optimizer))
    state.register("streams", streams)
    state.register("progress", progress)
    trainee = Trainee(
        model=model,
        optimizer=optimizer,
        schedule=Schedule(
            kind=config.schedule,
            lr=config.lr,
            num_steps=config.epochs * steps_per_epoch,
            num_warmup_steps=config.warmup_epochs * steps_per_epoch,
        ),
        augmentation=Augmentation(config.augment, config.data, streams.augmentation),
        streams=streams,
        progress=progress,
        train=dataset["train"],
        val=dataset["val"],
        batch_size=config.batch_size,
        num_epochs=config.epochs,
    )
    return trainee, state


def _model_weights(checkpoint: Checkpoint) -> Mapping[str, Tensor]:
    """Return the weights as the model's `state_dict` names them."""
    if checkpoint.state["kind"] == "best":
        return checkpoint.tensors
    prefix = f"{_MODEL}/"
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in checkpoint.tensors.items()
        if name.startswith(prefix)
    }
