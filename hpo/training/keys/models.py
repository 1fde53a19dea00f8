"""The keys that say which network is trained, and from which weights it starts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from hpo.errors import did_you_mean
from hpo.training.keys.key import Check, Keys, OnlyWith, Whole
from hpo.training.keys.torchvision_models import TORCHVISION_MODELS
from hpo.training.origin.origin import BadDataError, check_factory

BUILT_IN: Final = ("simple_cnn", "mlp", "resnet9")
"""The project's own networks."""

_TORCHVISION: Final = "torchvision:"
_FACTORY: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def torchvision_name(model: str) -> str | None:
    """Return the name that torchvision gives a model; None where it is not torchvision's."""
    if model in BUILT_IN:
        return None
    name = model.removeprefix(_TORCHVISION)
    return name if model.startswith(_TORCHVISION) or name in TORCHVISION_MODELS else None


def _known_model(model: str) -> str:
    name = torchvision_name(model)
    known = [*BUILT_IN, *TORCHVISION_MODELS]
    if model in BUILT_IN or name in TORCHVISION_MODELS:
        return model
    if name is None and _FACTORY.fullmatch(model):
        return model
    must = f"must be one of {', '.join(BUILT_IN)}, a torchvision model such as resnet18,"
    must += " or package.module:factory"
    raise ValueError(must + did_you_mean(model if name is None else name, known))


def _flag_or_text(value: object) -> object:
    if isinstance(value, bool | str) and value != "":
        return value
    raise ValueError("must be true, false or the path of a file of weights")


class ModelKeys(Keys):
    """Which network, and from which weights it starts."""

    model: Annotated[str, AfterValidator(_known_model)] = Field(
        default="simple_cnn",
        description="Network: simple_cnn, mlp, resnet9, any classification model of torchvision"
        " by its name, or your own as package.module:factory",
    )
    dropout: float = Field(
        default=0.25,
        ge=0,
        lt=1,
        description="Share of units dropped in training at every dropout of the model, 0 to below"
        " 1; a torchvision model without any gets one before its head",
    )
    width: Whole = Field(
        default=32,
        ge=1,
        le=1024,
        description="Channels of the first block of simple_cnn and resnet9; mlp's hidden layers"
        " have 8 times as many units; 1 to 1024",
    )
    depth: Whole = Field(
        default=0,
        ge=0,
        le=16,
        description="Blocks of simple_cnn, hidden layers of mlp, 1 to 16; 0: what suits the image"
        " size (simple_cnn), or 2 (mlp)",
    )
    activation: Literal["relu", "leaky_relu", "gelu", "silu"] = Field(
        default="relu", description="What follows each layer of simple_cnn, mlp and resnet9"
    )
    batch_norm: bool = Field(
        default=True, description="Whether simple_cnn normalises what each convolution gives"
    )
    pretrained: Annotated[bool | str, BeforeValidator(_flag_or_text)] = Field(
        default=False,
        description="true: torchvision's default weights; or a file of weights. Both bring their"
        " own normalisation, torchvision's also their input size",
    )
    freeze: Literal["none", "backbone"] = Field(
        default="none",
        description="backbone: train the last layer alone, the rest keeps its weights and"
        " statistics",
    )
    backbone_lr_scale: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Learning rate of all but the last layer as a share of lr, above 0 to 1; 0.1"
        " is usual for pretrained weights",
    )


def pretrained_size(config: ModelKeys) -> int | None:
    """Return the side in pixels of images that the pretrained weights expect; None for any."""
    name = torchvision_name(config.model)
    if name is None or config.pretrained is False:
        return None
    return TORCHVISION_MODELS[name]


def _check_pretrained(config: ModelKeys) -> Iterator[str]:
    if config.pretrained is True and torchvision_name(config.model) is None:
        yield (
            f"is true, but {config.model} is no torchvision model;"
            " write the path of a file of weights, or false"
        )
    elif isinstance(config.pretrained, str) and not Path(config.pretrained).is_file():
        yield (
            f"is '{config.pretrained}', which is no file here;"
            " write true, false or the path of a file of weights"
        )


def _check_factory(config: ModelKeys) -> Iterator[str]:
    if config.model in BUILT_IN or torchvision_name(config.model) is not None:
        return
    try:
        check_factory(config.model)
    except BadDataError as error:
        yield str(error)


CHECKS: Final[tuple[Check, ...]] = (
    (("pretrained", "model"), _check_pretrained),
    (("model",), _check_factory),
)

ONLY_WITH: Final[OnlyWith] = {
    "backbone_lr_scale": ("freeze", ("none",)),
    "batch_norm": ("model", ("simple_cnn",)),
}
