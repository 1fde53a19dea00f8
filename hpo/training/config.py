"""The built-in classifier's configuration, assembled from `keys/`. Imports no torch.

A sweep file is checked against `CLASSIFIER_SCHEMA` in milliseconds; training reads the same
values as a `ClassifierConfig`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from hpo.domain.search_space import Params, Value
from hpo.domain.task import ConfigKey, ConfigProblem, TaskSchema
from hpo.errors import did_you_mean
from hpo.training.keys import augmentation, data, models, optimisation, run
from hpo.training.keys.key import Check, OnlyWith, fields_by_key
from hpo.training.task import BadConfigError


class ClassifierConfig(
    run.RunKeys,
    optimisation.OptimisationKeys,
    augmentation.AugmentationKeys,
    models.ModelKeys,
    data.DataKeys,
):
    """What the built-in classifier trains with: every key of every group."""

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


METRICS: Final = (
    "train_loss",
    "train_accuracy",
    "val_loss",
    "val_accuracy",
    "val_macro_f1",
    "lr",
    "grad_norm",
    "grad_norm_max",
    "update_ratio",
    "epoch_s",
    "data_s",
    "compute_s",
    "examples_per_s",
    "peak_memory_bytes",
)
"""What each report carries.

Accuracies are shares from 0 to 1; losses are means over examples, in nats for classes.
`train_*` are means over the epoch's own updates, dropout and augmentation on, of what is
minimised; `val_loss` is the same without label smoothing, class weights or focus, so that trials
with different ones compare. `val_macro_f1` is the mean over classes of the F1 score. `lr` is the
last update's. `grad_norm` and `grad_norm_max` are mean and largest over updates of the gradient's
Euclidean norm, before clipping; `update_ratio` is the norm of the epoch's last change of the
weights over the norm of the weights. `epoch_s` is seconds of training and validation; of training,
`data_s` waits for examples and varies them, `compute_s` is the rest. `examples_per_s` counts
training examples over training time. `peak_memory_bytes` is the most that this process has held,
on the GPU where there is one.
"""


class ClassifierSchema:
    """The built-in classifier's keys and checks; fulfils `hpo.domain.task.TaskSchema`."""

    def __init__(self) -> None:
        self._keys = {name: _config_key(name, field) for name, field in _FIELDS.items()}

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
    sizes = config.split_sizes()
    if sizes is not None and config.batch_size > sizes.num_train:
        yield (
            f"is {config.batch_size}, must be at most {sizes.num_train},"
            f" the images in the training split of {config.data}"
        )


_BATCH_CHECK: Check = (
    ("batch_size", "data", "val_fraction", "test_fraction"),
    _check_batch,
)

_CHECKS: tuple[Check, ...] = (
    _BATCH_CHECK,
    *run.CHECKS,
    *optimisation.CHECKS,
    *augmentation.CHECKS,
    *models.CHECKS,
    *data.CHECKS,
)
"""Checks of several keys, each with the keys it reads; a problem points at the first."""

_ONLY_WITH: OnlyWith = {
    **data.ONLY_WITH,
    **models.ONLY_WITH,
    **augmentation.ONLY_WITH,
    **optimisation.ONLY_WITH,
    **run.ONLY_WITH,
}
"""Keys that training reads only where another key has one of some values."""

_FIRST_KEYS: Final = (
    "data",
    "data_root",
    "download",
    "model",
    "epochs",
    "batch_size",
    "optimizer",
    "lr",
    "weight_decay",
    "momentum",
    "dropout",
    "augment",
    "schedule",
    "warmup_epochs",
    "width",
    "val_fraction",
    "test_fraction",
)
"""What most sweeps write, documented before the rest of each group."""


def _fields() -> dict[str, FieldInfo]:
    """Return every field by its key: the first keys, then the others group by group."""
    declared = fields_by_key(ClassifierConfig)
    first = {name: declared[name] for name in _FIRST_KEYS}
    return first | {name: field for name, field in declared.items() if name not in first}


_FIELDS: Final = _fields()

_KINDS: Mapping[Any, str] = {
    int: "int",
    float: "float",
    str: "text",
    bool: "bool",
    bool | str: "bool or text",
}

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


def _config_key(name: str, field: FieldInfo) -> ConfigKey:
    choices = _choices(field)
    return ConfigKey(
        name=name,
        kind=_KINDS[field.annotation] if choices is None else "text",
        default=None if field.is_required() else field.default,
        doc=field.description or "",
        choices=choices,
        only_with=_ONLY_WITH.get(name),
    )


def _choices(field: FieldInfo) -> tuple[Value, ...] | None:
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else None


def _problem(details: ErrorDetails) -> ConfigProblem:
    key = str(details["loc"][0])
    return ConfigProblem(key=key, message=_message(key, details))


def _message(key: str, details: ErrorDetails) -> str:
    kind, given = details["type"], details["input"]
    if kind == "extra_forbidden":
        near = did_you_mean(key, list(_FIELDS))
        return f"is not a key of the classifier{near or '; remove it'}"
    choices = [str(choice) for choice in _choices(_FIELDS[key]) or ()]
    known = f"one of {', '.join(choices)}" if choices else _FIELDS[key].description
    if kind == "missing":
        return f"is missing; write {known}"
    if kind == "literal_error":
        near = did_you_mean(given, choices) if isinstance(given, str) else ""
        return f"is {_shown(given)}, must be {known}{near}"
    if kind in _BOUND_SIGNS:
        sign, bound = _BOUND_SIGNS[kind]
        return f"is {_shown(given)}, must be {sign} {details['ctx'][bound]:g}"
    if kind == "value_error":  # a validator's own sentence
        return f"is {_shown(given)}, {details['ctx']['error']}"
    must = _TYPE_WORDS.get(kind)
    return (
        f"is {_shown(given)}, must be {must}" if must else f"is {_shown(given)}: {details['msg']}"
    )


def _shown(value: object) -> str:
    """Write a value so that text cannot be taken for a number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}' (text)"
    return f"{value:g}" if isinstance(value, float) else str(value)


CLASSIFIER_SCHEMA: Final[TaskSchema] = ClassifierSchema()
"""The one instance."""
