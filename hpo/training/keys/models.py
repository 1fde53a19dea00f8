"""The keys that say which network is trained."""

from typing import Final, Literal

from pydantic import Field

from hpo.training.keys.key import Check, Keys, OnlyWith, Whole


class ModelKeys(Keys):
    """Which network."""

    model: Literal["simple_cnn", "mlp"] = Field(
        default="simple_cnn", description="Network: two convolution blocks, or two hidden layers"
    )
    dropout: float = Field(
        default=0.25, ge=0, lt=1, description="Share of units dropped in training, 0 to below 1"
    )
    width: Whole = Field(
        default=32,
        ge=1,
        le=1024,
        description="Channels of simple_cnn's first block; mlp's hidden layers have 8 times as"
        " many units; 1 to 1024",
    )


CHECKS: Final[tuple[Check, ...]] = ()

ONLY_WITH: Final[OnlyWith] = {}
