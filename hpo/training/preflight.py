"""Does a configuration train at all? Tried on 64 clean images, in seconds, with the real parts.

Each stage is one that a whole study would otherwise fail at. The first fault ends it with a plain
sentence. Nothing random is switched on: no augmentation, no dropout, and always the same 64
images in the same order, so that a loss that does not fall has a cause.

Shapes: N images, K classes or target columns.
"""

import contextlib
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from hpo.clock import Clock
from hpo.domain.decision import CONTINUE, Action, Decision
from hpo.domain.search_space import Params, Value
from hpo.domain.trial import Measurement
from hpo.training.config import ClassifierConfig
from hpo.training.data.dataset import Dataset
from hpo.training.data.resident import Split
from hpo.training.data.sampling import Sampling
from hpo.training.diagnosis import (
    INITIAL_EXCESS,
    SMALL_RATIO,
    initial_loss_problem,
    normalisation_problem,
)
from hpo.training.diary import sample
from hpo.training.finding import Facts
from hpo.training.keeper import CheckpointKeeper
from hpo.training.layers import NonFiniteLayerError, refusing_non_finite, tracing
from hpo.training.log import say
from hpo.training.loop import train
from hpo.training.plan import Batching
from hpo.training.schedules import Schedule
from hpo.training.stopping import Patience
from hpo.training.task import (
    BadConfigError,
    OutcomeKind,
    PublishedCheckpoint,
    TrialOutcome,
    TrialRequest,
)
from hpo.training.tasks.aftermath import facts_of, write_beginning
from hpo.training.tasks.assembly import assemble, load
from hpo.training.trainee import Trainee
from tracking.checkpoints import FileCheckpointStore, weights_digest

NUM_SAMPLES: Final = 64

MOST_EPOCHS: Final = 60
MOST_S: Final = 60.0
"""How long the loss may take to fall before that is a fault; a small model takes 0.1 s."""

FEW_EPOCHS: Final = 5
"""Trained in any case: the first updates may raise the loss by chance."""

LEAST_FALL: Final = 1e-4
"""Of the loss. The same images in the same order repeat a loss within 1e-6, and lr 1e-5 lowers it
by 1e-3 in five updates."""

CERTAIN_EXCESS: Final = 2 * INITIAL_EXCESS
"""Nats above ln(classes) before the first update that no way to initialise explains."""

_CLEAN: Final[Params] = {
    "dropout": 0.0,
    "augment": 0.0,
    "augment.rand_ops": 0,
    "augment.mixup": 0.0,
    "augment.cutmix": 0.0,
    "devices_per_trial": 1,
    "sync_batch_norm": False,
    "compile": False,
    "ema_decay": 0.0,
    "patience": 0,
}
"""What a preflight leaves out: randomness, and what costs minutes. `augment.NAME` keys too."""


class PreflightError(Exception):
    """The configuration does not train; the message says why, in a sentence.

    `details` has a line for each layer that data went through, where that explains it.
    """

    def __init__(self, text: str, details: list[str] | None = None) -> None:
        super().__init__(text)
        self.details = details or []


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What a preflight measured."""

    num_samples: int
    num_epochs: int
    first_loss: float
    last_loss: float
    seconds: float
    remarks: tuple[str, ...]
    """What looks wrong but trains."""


class _Watch:
    """Ends the training once its loss has fallen, or has not for too long; fulfils `Reporter`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s = clock.monotonic()
        self.losses: list[float] = []
        self.last: PublishedCheckpoint | None = None

    @property
    def has_fallen(self) -> bool:
        """Whether a later epoch's loss is below the first's."""
        return min(self.losses[1:], default=math.inf) < self.losses[0] * (1 - LEAST_FALL)

    def progress(self, epoch: int, fraction: float) -> None:
        """Hear a sign of life."""

    def report(self, measurement: Measurement) -> Decision:
        """Take an epoch's loss, which is that before its update."""
        self.losses.append(measurement.metrics["train_loss"])
        is_late = self._clock.monotonic() - self._began_s > MOST_S
        if (self.has_fallen and measurement.epoch >= FEW_EPOCHS) or is_late:
            return Decision(action=Action.PRUNE, reason="seen enough")
        return CONTINUE

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        """Remember the checkpoint that resumes."""
        if kind == "last":
            self.last = checkpoint


class _InOrder(Sampling):
    """Takes the images as they are stored, in every epoch."""

    def order(self, generator: torch.Generator) -> Tensor:
        """Return every index once."""
        del generator
        return torch.arange(self._num_images)


def preflight(request: TrialRequest, clock: Clock) -> Passed:
    """Try a configuration on a few images: shapes, gradients, learning, checkpoint, evaluation.

    Args:
        request: of the configuration; its seeds are used.
        clock: measures how long it takes.

    Raises:
        PreflightError: it does not train; the first fault.
    """
    began_s = clock.monotonic()
    request = replace(request, config=clean(request.config))
    with _stage("the data or the model cannot be made"):
        dataset = load(request, request.device)
        trainee = _small(assemble(request, dataset, is_restored=False), dataset, request)
    say(f"preflight: {len(trainee.train)} images, {_num_weights(trainee)} weights")
    _check_shapes(trainee, dataset)
    remarks = _check_beginning(trainee, dataset, request)
    _check_gradients(trainee)
    watch = _Watch(clock)
    with tempfile.TemporaryDirectory(prefix="hpo-preflight-") as scratch:
        store = FileCheckpointStore(Path(scratch))
        keeper = CheckpointKeeper(store, watch, clock, trainee.state, request.objective)
        with _stage("training or evaluation fails"):
            outcome = train(trainee, keeper, watch, clock, None)
        _check_learning(watch, outcome, trainee)
        with _stage("a checkpoint cannot be read back"):
            _check_checkpoint(request, dataset, trainee, watch, store, clock)
    return Passed(
        num_samples=len(trainee.train),
        num_epochs=len(watch.losses),
        first_loss=watch.losses[0],
        last_loss=watch.losses[-1],
        seconds=clock.monotonic() - began_s,
        remarks=tuple(remarks),
    )


def clean(config: Params) -> Params:
    """Return a configuration with everything random or slow switched off."""
    off: dict[str, Value] = {name: value for name, value in _CLEAN.items() if name in config}
    for name, value in config.items():
        is_strength = name.startswith("augment.") and name not in _CLEAN
        if is_strength and isinstance(value, float):
            off[name] = 0.0 if name != "augment.rand_magnitude" else value
    return {**config, **off}


@contextlib.contextmanager
def _stage(what: str) -> Iterator[None]:
    """Turn whatever goes wrong inside into a fault of this stage."""
    try:
        yield
    except PreflightError:
        raise
    except BadConfigError as error:
        raise PreflightError(str(error), getattr(error, "__notes__", [])) from error
    except Exception as error:  # user code and kernels may raise anything
        text = str(error).splitlines()[0] if str(error) else ""
        if "empty parameter list" in text:
            raise PreflightError(
                "no weight of the model is trained: each has requires_grad False; thaw one, or"
                " write freeze: none"
            ) from error
        raise PreflightError(f"{what}: {type(error).__name__}: {text}") from error


def _small(trainee: Trainee, dataset: Dataset, request: TrialRequest) -> Trainee:
    """Return a trainee on a few images, at its configured rate, with the parts of its batches."""
    few = _few(dataset, "train")
    config = ClassifierConfig.parse(request.config)
    part_size = max(1, config.batch_size // config.accumulate)
    num_parts = -(-len(few) // min(part_size, len(few)))
    is_rising = config.warmup_epochs > 0 or config.schedule == "one_cycle"
    return replace(
        trainee,
        train=few,
        val=_few(dataset, "val"),
        sampling=_InOrder("uniform", few.labels_N),
        batching=Batching(size=len(few), accumulate=num_parts),
        schedule=Schedule(
            kind="constant",
            lr=trainee.schedule.lr,
            num_steps=MOST_EPOCHS,
            num_warmup_steps=FEW_EPOCHS if is_rising else 0,
        ),
        patience=Patience(0, request.objective),
        num_epochs=MOST_EPOCHS,
    )


def _few(dataset: Dataset, split: str) -> Split:
    images_NCHW, labels_N = sample(dataset[split], NUM_SAMPLES)
    return Split(images_NCHW=images_NCHW, labels_N=labels_N)


def _num_weights(trainee: Trainee) -> int:
    return sum(w.numel() for w in trainee.model.parameters() if w.requires_grad)


def _check_shapes(trainee: Trainee, dataset: Dataset) -> None:
    """Put two images through the model, layer by layer."""
    model, card = trainee.model, dataset.card
    images_NCHW = trainee.train.images_NCHW[:2]
    model.eval()
    with tracing(model) as trace, torch.no_grad():
        try:
            outputs_NK = model(images_NCHW)
        except Exception as error:
            shape = "x".join(map(str, card.image_shape))
            what = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise PreflightError(
                f"images of {shape} do not go through the model, at {trace.failed}: {what}",
                trace.table(),
            ) from error
    given = tuple(outputs_NK.shape) if isinstance(outputs_NK, Tensor) else type(outputs_NK)
    if given != (len(images_NCHW), card.num_classes):
        raise PreflightError(
            f"the model gives {given} for {len(images_NCHW)} images, must give"
            f" ({len(images_NCHW)}, {card.num_classes}): a row of {card.num_classes} outputs each",
            trace.table(),
        )


def _check_beginning(trainee: Trainee, dataset: Dataset, request: TrialRequest) -> list[str]:
    """Look at what reaches the network, and at the loss before the first update."""
    try:
        with refusing_non_finite():
            write_beginning(trainee)
    except NonFiniteLayerError as error:
        raise PreflightError(f"before the first update, {error}") from error
    facts = facts_of(trainee, ClassifierConfig.parse(request.config), dataset)
    normalisation = normalisation_problem(facts)
    if normalisation is not None:
        raise PreflightError(f"normalisation: {normalisation}")
    problem = initial_loss_problem(facts)
    if problem is not None and _is_certain(facts):
        raise PreflightError(f"the loss {problem}")
    return [f"the loss {problem}"] if problem is not None else []


def _is_certain(facts: Facts) -> bool:
    loss, chance = facts.initial_loss, facts.chance_loss
    return loss is not None and chance is not None and not loss <= chance + CERTAIN_EXCESS


def _check_gradients(trainee: Trainee) -> None:
    """Go backward once; every weight that is trained must get a finite gradient."""
    model, few = trainee.model, trainee.train
    model.train()
    trainee.optimizer.zero_grad()
    size = len(few) // trainee.batching.accumulate or 1
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with _stage("going forward and backward fails"):
        with trainee.precision.autocast():
            outputs_NK = trainee.runner(few.images_NCHW[:size])
        loss = trainee.loss.total(outputs_NK, few.labels_N[:size]) / size
        loss.backward()  # type: ignore[no-untyped-call]
    trained = {name: w for name, w in model.named_parameters() if w.requires_grad}
    without = [name for name, weight in trained.items() if weight.grad is None]
    if without:
        raise PreflightError(
            f"{_listed(without)} get(s) no gradient: the output does not depend on it; remove it"
            " from the model, or set its requires_grad to False"
        )
    gradients = {name: w.grad for name, w in trained.items() if w.grad is not None}
    bad = [name for name, gradient in gradients.items() if not gradient.isfinite().all()]
    if bad:
        raise PreflightError(f"the gradient of {_listed(bad)} is not finite")
    if not any(gradient.any() for gradient in gradients.values()):
        raise PreflightError(
            "the gradient of every weight is 0: something between the weights and the loss is cut"
            " off, such as by .detach() or a dead activation"
        )
    trainee.optimizer.zero_grad()
    for buffer, value in buffers:
        buffer.copy_(value)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _check_learning(watch: _Watch, outcome: TrialOutcome, trainee: Trainee) -> None:
    rate = trainee.schedule.lr
    if outcome.kind is OutcomeKind.DIVERGED:
        raise PreflightError(
            f"{outcome.message}, on {len(trainee.train)} clean images at lr {rate:.3g}; lower lr,"
            " or look at the scale of the targets"
        )
    if watch.has_fallen:
        return
    curve = ", ".join(f"{loss:.4g}" for loss in watch.losses[:5])
    ratios = [m.metrics["update_ratio"] for m in trainee.diary.measurements]
    raise PreflightError(
        f"the loss does not fall in {len(watch.losses)} epochs on {len(trainee.train)} clean"
        f" images at lr {rate:.3g} ({curve}, ..); the last update changed the weights by"
        f" {ratios[-1]:.1g} of their size, 1e-3 is usual:"
        f" {'raise' if ratios[-1] < SMALL_RATIO else 'lower'} lr"
    )


def _check_checkpoint(
    request: TrialRequest,
    dataset: Dataset,
    trained: Trainee,
    watch: _Watch,
    store: FileCheckpointStore,
    clock: Clock,
) -> None:
    """Restore what was written into a new training; everything in it must be equal."""
    if watch.last is None:
        raise PreflightError("no checkpoint was written")
    restored = assemble(request, dataset, is_restored=True)
    CheckpointKeeper(store, watch, clock, restored.state, request.objective).restore(watch.last)
    if weights_digest(restored.model.state_dict()) != weights_digest(trained.model.state_dict()):
        raise PreflightError(
            "the weights come back from a checkpoint otherwise than they were written: the model"
            " keeps something in its state_dict that loading does not restore"
        )
    before, plain_before = trained.state.capture()
    after, plain_after = restored.state.capture()
    differing = [
        name
        for name, tensor in before.items()
        if name not in after or not torch.equal(tensor.cpu(), after[name].cpu())
    ]
    if differing or plain_before != plain_after:
        names = differing or [n for n in plain_before if plain_before[n] != plain_after.get(n)]
        raise PreflightError(
            f"{_listed(names)} comes back from a checkpoint otherwise than it was written"
        )
