"""The built-in classifier's configuration: its keys, types, ranges and checks. Imports no torch.

A sweep file is checked against `CLASSIFIER_SCHEMA` in milliseconds; training reads the same
values as a `ClassifierConfig`.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from hpo.domain.search_space import Params, Value
from hpo.domain.task import ConfigKey, ConfigProblem, TaskSchema
from hpo.errors import did_you_mean
from hpo.training.catalog import IMAGE_SETS, SplitSizes, split_sizes
from hpo.training.task import BadConfigError


def _whole(value: object) -> object:
    """Turn 64.0 into 64: YAML and numeric search spaces may write a whole number either way."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number, however it is written."""


class ClassifierConfig(BaseModel):
    """What the built-in classifier trains with. Every field is a key of the sweep file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    data: Literal["digits", "mnist", "fashion_mnist", "cifar10"] = Field(
        description="Image set; digits comes with scikit-learn, the others lie under data_root",
    )
    data_root: str = Field(
        default="data",
        min_length=1,
        description="Folder of torchvision image sets, relative to the current folder",
    )
    download: bool = Field(
        default=False, description="Whether to download an image set that is not under data_root"
    )
    model: Literal["simple_cnn", "mlp"] = Field(
        default="simple_cnn", description="Network: two convolution blocks, or two hidden layers"
    )
    epochs: Whole = Field(
        default=15, ge=1, description="Passes over the training split, 1 or more"
    )
    batch_size: Whole = Field(
        default=64, ge=1, description="Images in one update, 1 to the size of the training split"
    )
    optimizer: Literal["sgd", "adamw"] = Field(default="adamw", description="Update rule")
    lr: float = Field(
        default=1e-3, gt=0, description="Learning rate after warm-up, above 0; log scale is usual"
    )
    weight_decay: float = Field(
        default=1e-4,
        ge=0,
        description="Decay of the weights, 0 or more; never applied to norms and biases",
    )
    momentum: float = Field(
        default=0.9, ge=0, lt=1, description="Momentum of sgd, 0 to below 1; adamw ignores it"
    )
    dropout: float = Field(
        default=0.25, ge=0, lt=1, description="Share of units dropped in training, 0 to below 1"
    )
    augment: float = Field(
        default=0.0, ge=0, le=1, description="Augmentation strength, 0 (none) to 1 (the most)"
    )
    schedule: Literal["constant", "cosine"] = Field(
        default="cosine", description="Learning rate after warm-up: constant, or cosine to 0"
    )
    warmup_epochs: Whole = Field(
        default=0,
        ge=0,
        description="Epochs of linear rise of the learning rate, 0 to below epochs",
    )
    width: Whole = Field(
        default=32,
        ge=1,
        le=1024,
        description="Channels of simple_cnn's first block; mlp's hidden layers have 8 times as"
        " many units; 1 to 1024",
    )
    val_fraction: float = Field(
        default=0.15, ge=0.01, le=0.4, description="Share of images for validation, 0.01 to 0.4"
    )
    test_fraction: float = Field(
        default=0.15,
        ge=0.01,
        le=0.4,
        description="Share of images for testing, 0.01 to 0.4; unused where the set has its own"
        " test split",
    )

    @classmethod
    def parse(cls, config: Params) -> "ClassifierConfig":
        """Read a configuration for training.

        Raises:
            BadConfigError: a value cannot be trained with; the message names every such key.
        """
        try:
            return cls.model_validate(dict(config))
        except ValidationError as error:
            problems = [_problem(details) for details in error.errors()]
            text = "; ".join(f"{problem.key} {problem.message}" for problem in problems)
            raise BadConfigError(text) from error

    def split_sizes(self) -> SplitSizes:
        """Return how many images each split gets."""
        image_set = IMAGE_SETS[self.data]
        return split_sizes(
            image_set.num_images, image_set.num_test, self.val_fraction, self.test_fraction
        )


METRICS: Final = (
    "train_loss",
    "train_accuracy",
    "val_loss",
    "val_accuracy",
    "lr",
    "grad_norm",
    "epoch_s",
    "examples_per_s",
)
"""What each report carries.

Losses are mean cross-entropies in nats, accuracies are shares from 0 to 1.
`train_*` are means over the epoch's own updates, dropout and augmentation on; `lr` is the last
update's; `grad_norm` is the mean over updates of the gradient's Euclidean norm; `epoch_s` is
seconds of training and validation; `examples_per_s` counts training examples over training time.
"""


class ClassifierSchema:
    """The built-in classifier's keys and checks; fulfils `hpo.domain.task.TaskSchema`."""

    def __init__(self) -> None:
        self._keys = {
            name: _config_key(name, field) for name, field in ClassifierConfig.model_fields.items()
        }

    @property
    def keys(self) -> Mapping[str, ConfigKey]:
        """Every key by name, in the order to document them."""
        return self._keys

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that every report carries."""
        return METRICS

    def complete(self, config: Params) -> Params:
        """Return `config` with defaults for the keys it lacks; unknown keys stay, at the end."""
        completed: dict[str, Value] = {}
        for name, key in self._keys.items():
            value = config.get(name, key.default)
            if value is not None:
                completed[name] = value
        return completed | {name: config[name] for name in config if name not in completed}

    def problems(self, config: Params) -> list[ConfigProblem]:
        """Return what is wrong with a complete configuration; empty means it can be trained."""
        found: list[ConfigProblem] = []
        sound = dict(config)
        try:
            ClassifierConfig.model_validate(sound)
        except ValidationError as error:
            found = [_problem(details) for details in error.errors()]
            for problem in found:
                sound.pop(problem.key, None)
        if "data" not in sound:
            return found
        bad_keys = {problem.key for problem in found}
        parsed = ClassifierConfig.model_validate(sound)
        for keys, check in _CHECKS:
            if not bad_keys & set(keys):
                found.extend(
                    ConfigProblem(key=keys[0], message=message) for message in check(parsed)
                )
        return found


def _check_batch(config: ClassifierConfig) -> Iterator[str]:
    num_train = config.split_sizes().num_train
    if config.batch_size > num_train:
        yield (
            f"is {config.batch_size}, must be at most {num_train},"
            f" the images in the training split of {config.data}"
        )


def _check_warmup(config: ClassifierConfig) -> Iterator[str]:
    if config.warmup_epochs >= config.epochs:
        yield f"is {config.warmup_epochs}, must be below epochs ({config.epochs})"


def _check_files(config: ClassifierConfig) -> Iterator[str]:
    if config.download:
        return
    image_set = IMAGE_SETS[config.data]
    root = Path(config.data_root)
    missing = image_set.missing_files(root)
    if not missing:
        return
    remedy = f"write download: true, or put the files of {config.data} into"
    place = f"{root / image_set.folder} ({', '.join(image_set.files)}"
    place += ", each may end in .gz)" if image_set.is_gzip_allowed else ")"
    if not root.is_dir():
        yield f"is '{root}', which is no folder here; {remedy} {place}"
    else:
        yield f"is '{root}', which lacks {missing[0].relative_to(root)}; {remedy} {place}"


_CHECKS: tuple[tuple[tuple[str, ...], Callable[[ClassifierConfig], Iterator[str]]], ...] = (
    (("batch_size", "data", "val_fraction", "test_fraction"), _check_batch),
    (("warmup_epochs", "epochs"), _check_warmup),
    (("data_root", "data", "download"), _check_files),
)
"""Checks of several keys, each with the keys it reads; a problem points at the first."""

_KINDS: Mapping[Any, str] = {int: "int", float: "float", str: "text", bool: "bool"}

_TYPE_WORDS: Mapping[str, str] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "string_too_short": "a name that is not empty",
    "bool_type": "true or false",
    "finite_number": "finite",
}
"""Pydantic's error types in our words."""

_BOUND_SIGNS: Mapping[str, tuple[str, str]] = {
    "greater_than": (">", "gt"),
    "greater_than_equal": (">=", "ge"),
    "less_than": ("<", "lt"),
    "less_than_equal": ("<=", "le"),
}


_ONLY_WITH: Mapping[str, tuple[str, Value]] = {"momentum": ("optimizer", "sgd")}
"""Keys that training reads only where another key has a given value."""


def _config_key(name: str, field: FieldInfo) -> ConfigKey:
    is_choice = get_origin(field.annotation) is Literal
    return ConfigKey(
        name=name,
        kind="text" if is_choice else _KINDS[field.annotation],
        default=None if field.is_required() else field.default,
        doc=field.description or "",
        choices=get_args(field.annotation) if is_choice else None,
        only_with=_ONLY_WITH.get(name),
    )


def _problem(details: ErrorDetails) -> ConfigProblem:
    key = str(details["loc"][0])
    return ConfigProblem(key=key, message=_message(key, details))


def _message(key: str, details: ErrorDetails) -> str:
    kind, given = details["type"], details["input"]
    if kind == "extra_forbidden":
        near = did_you_mean(key, list(ClassifierConfig.model_fields))
        return f"is not a key of the classifier{near or '; remove it'}"
    if kind in ("missing", "literal_error"):
        choices = get_args(ClassifierConfig.model_fields[key].annotation)
        known = f"one of {', '.join(choices)}"
        if kind == "missing":
            return f"is missing; write {known}"
        near = did_you_mean(given, list(choices)) if isinstance(given, str) else ""
        return f"is {_shown(given)}, must be {known}{near}"
    if kind in _BOUND_SIGNS:
        sign, bound = _BOUND_SIGNS[kind]
        return f"is {_shown(given)}, must be {sign} {details['ctx'][bound]:g}"
    if kind in _TYPE_WORDS:
        return f"is {_shown(given)}, must be {_TYPE_WORDS[kind]}"
    return f"is {_shown(given)}: {details['msg']}"


def _shown(value: object) -> str:
    """Write a value so that text cannot be taken for a number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}' (text)"
    return f"{value:g}" if isinstance(value, float) else str(value)


CLASSIFIER_SCHEMA: Final[TaskSchema] = ClassifierSchema()
"""The one instance."""
