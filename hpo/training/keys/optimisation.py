"""The keys that say what is minimised, how long, in which steps and by which rule."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from hpo.training.keys.key import Check, Keys, OnlyWith, Whole, parts


def _check_class_weights(text: str) -> str:
    """Let `none`, `auto` and numbers of 0 or more pass, of which one at least is above 0."""
    if text in ("none", "auto"):
        return text
    problem = "must be none, auto, or a number of 0 or more for each class: '1, 2.5, 1'"
    try:
        weights = [float(item) for item in parts(text)]
    except ValueError:
        raise ValueError(problem) from None
    if (
        not weights
        or not all(0 <= weight < float("inf") for weight in weights)
        or not any(weights)
    ):
        raise ValueError(problem)
    return text


class OptimisationKeys(Keys):
    """What is minimised, and how the weights are updated."""

    epochs: Whole = Field(
        default=15, ge=1, description="Passes over the training split, 1 or more"
    )
    batch_size: Whole = Field(
        default=64, ge=1, description="Images in one update, 1 to the size of the training split"
    )
    optimizer: Literal["sgd", "adam", "adamw", "rmsprop"] = Field(
        default="adamw", description="Update rule"
    )
    lr: float = Field(
        default=1e-3, gt=0, description="Learning rate after warm-up, above 0; log scale is usual"
    )
    weight_decay: float = Field(
        default=1e-4,
        ge=0,
        description="Decay of the weights, 0 or more; never applied to norms and biases, unless"
        " decay_norms",
    )
    momentum: float = Field(
        default=0.9,
        ge=0,
        lt=1,
        description="Momentum of sgd and rmsprop, 0 to below 1; adam and adamw ignore it",
    )
    schedule: Literal["constant", "step", "cosine", "one_cycle", "linear"] = Field(
        default="cosine",
        description="Learning rate after warm-up: constant, falling by step_factor every"
        " step_epochs, along a cosine or a line to lr_min, or one rise and fall",
    )
    warmup_epochs: Whole = Field(
        default=0,
        ge=0,
        description="Epochs of linear rise of the learning rate, 0 to below epochs",
    )
    nesterov: bool = Field(default=False, description="Whether sgd looks ahead along its momentum")
    beta1: float = Field(
        default=0.9,
        ge=0,
        lt=1,
        description="Memory of adam's and adamw's mean of the gradient, 0 to below 1",
    )
    beta2: float = Field(
        default=0.999,
        ge=0,
        lt=1,
        description="Memory of adam's and adamw's mean of its square, 0 to below 1",
    )
    decay_norms: bool = Field(
        default=False, description="Whether weight decay applies to norms and biases too"
    )
    lr_min: float = Field(
        default=0.0,
        ge=0,
        description="Learning rate that the schedule falls to, 0 to lr; the floor of step",
    )
    step_epochs: Whole = Field(
        default=5, ge=1, description="Epochs between two falls of the step schedule, 1 or more"
    )
    step_factor: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="What each fall of the step schedule multiplies by, between 0 and 1",
    )
    lr_rule: Literal["none", "linear", "sqrt"] = Field(
        default="none",
        description="How lr and lr_min grow with batch_size / lr_base_batch: not, in proportion,"
        " or as its root",
    )
    lr_base_batch: Whole = Field(
        default=64, ge=1, description="Batch size at which lr_rule leaves lr as it is, 1 or more"
    )
    accumulate: Whole = Field(
        default=1,
        ge=1,
        description="Parts of each batch that go through the model one after the other, 1 or"
        " more; divides batch_size, which stays the images in one update",
    )
    clip_norm: float = Field(
        default=0.0,
        ge=0,
        description="Largest Euclidean norm of the whole gradient, above 0; 0 clips nothing",
    )
    ema_decay: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of the averaged weights kept at each update, such as 0.999; they are"
        " what is evaluated and saved; 0 averages nothing",
    )
    ema_start: Whole = Field(
        default=0, ge=0, description="Epochs before averaging begins, 0 to below epochs"
    )
    loss: Literal["cross_entropy", "focal", "bce", "kl_div", "mse", "l1", "huber"] = Field(
        default="cross_entropy",
        description="What is minimised; bce judges each class alone, mse, l1 and huber compare"
        " the outputs themselves with the targets",
    )
    label_smoothing: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of each target spread over all classes, 0 to below 1, in training",
    )
    focal_gamma: float = Field(
        default=2.0, ge=0, description="How much focal loss plays down what is easy, 0 or more"
    )
    huber_delta: float = Field(
        default=1.0, gt=0, description="Error from which huber grows linearly, above 0"
    )
    class_weights: Annotated[str, AfterValidator(_check_class_weights)] = Field(
        default="none",
        description="Weight of each class in the training loss, in the order of the classes:"
        " none, auto (inverse to their frequency, 1 on average), or numbers with commas",
    )


def _check_warmup(config: OptimisationKeys) -> Iterator[str]:
    if config.warmup_epochs >= config.epochs:
        yield f"is {config.warmup_epochs}, must be below epochs ({config.epochs})"


def _check_accumulate(config: OptimisationKeys) -> Iterator[str]:
    if config.batch_size % config.accumulate:
        yield f"is {config.accumulate}, must divide batch_size ({config.batch_size})"


def _check_lr_min(config: OptimisationKeys) -> Iterator[str]:
    if config.lr_min > config.lr and config.schedule != "constant":
        yield f"is {config.lr_min:g}, must be at most lr ({config.lr:g})"


def _check_step(config: OptimisationKeys) -> Iterator[str]:
    if config.schedule == "step" and config.step_epochs >= config.epochs:
        yield (
            f"is {config.step_epochs}, must be below epochs ({config.epochs}),"
            " or the learning rate never falls"
        )


def _check_nesterov(config: OptimisationKeys) -> Iterator[str]:
    if config.nesterov and config.optimizer == "sgd" and config.momentum == 0:
        yield "is true, which needs momentum above 0"


def _check_ema(config: OptimisationKeys) -> Iterator[str]:
    if config.ema_decay and config.ema_start >= config.epochs:
        yield f"is {config.ema_start}, must be below epochs ({config.epochs})"


CHECKS: Final[tuple[Check, ...]] = (
    (("warmup_epochs", "epochs"), _check_warmup),
    (("accumulate", "batch_size"), _check_accumulate),
    (("lr_min", "lr", "schedule"), _check_lr_min),
    (("step_epochs", "schedule", "epochs"), _check_step),
    (("nesterov", "optimizer", "momentum"), _check_nesterov),
    (("ema_start", "ema_decay", "epochs"), _check_ema),
)

_CLASSIFICATION: Final = ("cross_entropy", "focal", "bce", "kl_div")

ONLY_WITH: Final[OnlyWith] = {
    "momentum": ("optimizer", ("sgd", "rmsprop")),
    "nesterov": ("optimizer", ("sgd",)),
    "beta1": ("optimizer", ("adam", "adamw")),
    "beta2": ("optimizer", ("adam", "adamw")),
    "lr_min": ("schedule", ("step", "cosine", "one_cycle", "linear")),
    "step_epochs": ("schedule", ("step",)),
    "step_factor": ("schedule", ("step",)),
    "lr_base_batch": ("lr_rule", ("linear", "sqrt")),
    "label_smoothing": ("loss", _CLASSIFICATION),
    "focal_gamma": ("loss", ("focal",)),
    "huber_delta": ("loss", ("huber",)),
}
