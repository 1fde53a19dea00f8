"""The keys that say how long, in which steps and by which rule the weights are updated."""

from collections.abc import Iterator
from typing import Final, Literal

from pydantic import Field

from hpo.training.keys.key import Check, Keys, OnlyWith, Whole


class OptimisationKeys(Keys):
    """How the weights are updated."""

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
    schedule: Literal["constant", "cosine"] = Field(
        default="cosine", description="Learning rate after warm-up: constant, or cosine to 0"
    )
    warmup_epochs: Whole = Field(
        default=0,
        ge=0,
        description="Epochs of linear rise of the learning rate, 0 to below epochs",
    )


def _check_warmup(config: OptimisationKeys) -> Iterator[str]:
    if config.warmup_epochs >= config.epochs:
        yield f"is {config.warmup_epochs}, must be below epochs ({config.epochs})"


CHECKS: Final[tuple[Check, ...]] = ((("warmup_epochs", "epochs"), _check_warmup),)

ONLY_WITH: Final[OnlyWith] = {"momentum": ("optimizer", ("sgd",))}
