"""The keys that say how training images are varied."""

from typing import Final

from pydantic import Field

from hpo.training.keys.key import Check, Keys, OnlyWith


class AugmentationKeys(Keys):
    """How training images are varied."""

    augment: float = Field(
        default=0.0, ge=0, le=1, description="Augmentation strength, 0 (none) to 1 (the most)"
    )


CHECKS: Final[tuple[Check, ...]] = ()

ONLY_WITH: Final[OnlyWith] = {}
