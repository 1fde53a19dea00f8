"""Puts a trial of the built-in classifier together from its configuration."""

import hashlib
from dataclasses import astuple
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from hpo.training.arrangement import arrange
from hpo.training.augmentation.augmentation import build_augmentation
from hpo.training.averaging import WeightAverage
from hpo.training.config import ClassifierConfig
from hpo.training.data.dataset import Dataset, load_data
from hpo.training.data.sampling import Sampling
from hpo.training.data.source import TargetKind
from hpo.training.determinism import RandomStreams, configure_device, configure_threads
from hpo.training.diary import Diary
from hpo.training.log import say
from hpo.training.losses import build_loss
from hpo.training.models.classifier import Classifier, build_model
from hpo.training.models.pretrained import load_weights
from hpo.training.optimizers import OptimizerState, build_optimizer
from hpo.training.plan import Batching
from hpo.training.precision import Precision
from hpo.training.ranks import ALONE, Ranks
from hpo.training.schedules import Schedule, scaled_rate
from hpo.training.state import Progress, TrainState
from hpo.training.stopping import Patience
from hpo.training.task import BadConfigError, InitialWeights, TrialRequest
from hpo.training.trainee import Augment, Trainee

MODEL_PART: Final = "model"
"""The model's name among the parts of a checkpoint `last`."""
AVERAGE_PART: Final = "average"
"""The averaged weights' name, where there are any."""


def load(request: TrialRequest, device: str, num_ranks: int = 1) -> Dataset:
    """Set torch up as the request says, and return its data."""
    config = ClassifierConfig.parse(request.config)
    configure_threads(max(1, request.num_threads // num_ranks))
    configure_device(device, is_deterministic=config.deterministic)
    resplit_seed = request.seeds.get("resplit")
    return load_data(request.config, request.cache_dir, request.split_seed, device, resplit_seed)


def assemble(
    request: TrialRequest, dataset: Dataset, *, is_restored: bool, ranks: Ranks = ALONE
) -> Trainee:
    """Return everything of a trial, freshly seeded.

    Args:
        request: decides the result.
        dataset: loaded on the device to train on.
        is_restored: whether a checkpoint replaces all weights after this.
        ranks: this process among those of the trial.

    Raises:
        BadConfigError: the parts do not fit each other.
    """
    config = ClassifierConfig.parse(request.config)
    card, train = dataset.card, dataset["train"]
    device = str(train.labels_N.device)
    streams = RandomStreams(request.seeds, device)
    model = build_model(config, card, streams, is_restored=is_restored)
    if not is_restored:
        for note in model.notes:
            say(note)
        begin_from(model, config, request.init_from)
    if config.sync_batch_norm and not ranks.is_alone:
        _synchronise_norms(model, device)
    model.to(device)
    arrange(model, config, streams)
    optimizer = build_optimizer(config, model.parameter_groups())
    batching = Batching(
        size=config.batch_size, accumulate=config.accumulate, drop_last=config.loader_drop_last
    )
    steps_per_epoch = len(batching.bounds(len(train)))
    average = WeightAverage(model, config.ema_decay, config.ema_start * steps_per_epoch)
    precision = Precision(config.precision, device)
    progress, patience = Progress(), Patience(config.patience, request.objective)
    diary = Diary()
    state = TrainState()
    state.register(MODEL_PART, model)
    state.register("optimizer", OptimizerState(optimizer))
    state.register("streams", streams)
    state.register("progress", progress)
    state.register("patience", patience)
    state.register("precision", precision)
    state.register("diary", diary)
    if average.is_enabled:
        state.register(AVERAGE_PART, average)
    return Trainee(
        model=model,
        runner=ranks.parallel(model, device),
        optimizer=optimizer,
        schedule=_schedule(config, steps_per_epoch),
        loss=build_loss(config, TargetKind(card.target_kind), train.labels_N),
        precision=precision,
        average=average,
        clip_norm=config.clip_norm,
        augment=_augment(config, dataset, streams),
        streams=streams,
        sampling=Sampling(config.sampling, train.labels_N),
        train=train,
        val=dataset["val"],
        batching=batching,
        num_epochs=config.epochs,
        progress=progress,
        patience=patience,
        diary=diary,
        ranks=ranks,
        state=state,
    )


def _augment(config: ClassifierConfig, dataset: Dataset, streams: RandomStreams) -> Augment:
    augmentation = build_augmentation(config, dataset.card, streams.augmentation)
    num_classes = dataset.card.num_classes
    is_off = not any(astuple(augmentation.strengths)) and augmentation.rand_augment is None
    if is_off and augmentation.mixing is None:
        return lambda images_NCHW, labels: (images_NCHW, labels)

    def augment(images_NCHW: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return augmentation.mix(augmentation(images_NCHW), labels, num_classes)

    return augment


def _schedule(config: ClassifierConfig, steps_per_epoch: int) -> Schedule:
    lr, lr_min = (
        scaled_rate(rate, config.lr_rule, config.batch_size, config.lr_base_batch)
        for rate in (config.lr, config.lr_min)
    )
    if lr != config.lr:
        say(f"lr_rule: {config.lr_rule}, lr is {lr:g} at batch_size {config.batch_size}")
    return Schedule(
        kind=config.schedule,
        lr=lr,
        num_steps=config.epochs * steps_per_epoch,
        num_warmup_steps=config.warmup_epochs * steps_per_epoch,
        lr_min=lr_min,
        steps_per_fall=config.step_epochs * steps_per_epoch,
        fall_factor=config.step_factor,
    )


def _synchronise_norms(model: Classifier, device: str) -> None:
    if torch.device(device).type != "cuda":
        raise BadConfigError(
            f"sync_batch_norm is true, which needs GPUs; this trial is on {device}"
        )
    model.network = nn.SyncBatchNorm.convert_sync_batchnorm(  # type: ignore[no-untyped-call]
        model.network
    )


def begin_from(model: Classifier, config: ClassifierConfig, found: InitialWeights | None) -> None:
    """Give a model the weights that `init_from` names; they bring their own normalisation.

    Raises:
        BadConfigError: they are missing, changed, or do not fit.
    """
    if config.init_from == "none":
        return
    if found is None and not config.init_from.endswith(".safetensors"):
        raise BadConfigError(
            f"init_from is {config.init_from}, which was not looked up; write the path of a"
            " .safetensors file"
        )
    path = Path(found.path if found else config.init_from)
    if not path.is_file():
        raise BadConfigError(f"init_from is {config.init_from}, but there is no file {path}")
    if found is not None and hashlib.sha256(path.read_bytes()).hexdigest() != found.sha256:
        raise BadConfigError(
            f"init_from is {config.init_from}, but {path} is not what that trial wrote"
        )
    try:
        loaded = load_weights(model.network, path)
    except BadConfigError as error:
        text = str(error).removeprefix("pretrained is ")
        raise BadConfigError(f"init_from is {text}") from error
    if loaded.normalisation is not None:
        for buffer, value in zip(
            (model.normalize.scale, model.normalize.shift), loaded.normalisation, strict=True
        ):
            if buffer.shape != value.shape:
                raise BadConfigError(f"init_from is {path}, made for images of other channels")
            buffer.copy_(value)
    for note in loaded.notes:
        say(note.replace("pretrained:", "init_from:", 1))
