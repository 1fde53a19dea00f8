"""What is sane for which images: the share of each operation at `augment: 1`.

The strength of an operation is `augment` times its share here, or what its own key says. What a
strength of 1 means is said once, in the module of the operation:

| operation | at strength 1 |
|---|---|
| translate | by up to 1/8 of the side, in whole pixels: 1 of 8, 3 of 28, 4 of 32 |
| crop | a random part of a quarter of the area or more, of aspect 3:4 to 4:3, at full size |
| rotation | up to 15 degrees to either side; 6 and 9, or 1 and 7, stay apart |
| scale | up to 15 percent smaller or larger |
| flip | every second image, left to right |
| color | brightness, contrast and saturation each by up to 40 percent |
| erasing | every image: a rectangle of 2 to 20 percent of the area becomes the mean |

Source: He et al. 2016, "Deep Residual Learning", section 4.2 (4 of 32 pixels and reflection);
Szegedy et al. 2015, "Going Deeper with Convolutions", section 6 (crop); Zhong et al. 2020, "Random
Erasing Data Augmentation", section 3.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final

from hpo.training.config import ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.keys.augmentation import color_problem
from hpo.training.task import BadConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Strengths:
    """Of each operation, 0 (off) to 1."""

    translate: float = 0.0
    crop: float = 0.0
    rotation: float = 0.0
    scale: float = 0.0
    flip: float = 0.0
    color: float = 0.0
    erasing: float = 0.0


_DIGITS: Final = Strengths(translate=1.0, rotation=1.0, scale=1.0)
_OBJECTS: Final = Strengths(translate=1.0, rotation=0.5, flip=1.0, color=0.5, erasing=0.5)

RECIPES: Final[Mapping[str, Strengths]] = {
    "digits": _DIGITS,
    "mnist": _DIGITS,
    "fashion_mnist": Strengths(translate=0.5, scale=0.5, flip=1.0, erasing=0.5),
    "cifar10": _OBJECTS,
}
"""By image set: digits change their meaning when reflected, clothes and animals do not."""

GREY: Final = Strengths(translate=1.0, rotation=1.0, scale=1.0, erasing=0.25)
"""For other images of one channel, which may be writing or scans: never reflected."""

PHOTO: Final = Strengths(crop=1.0, rotation=0.5, flip=1.0, color=0.5, erasing=0.25)
"""For other images of three channels."""

MANY_CHANNELS: Final = Strengths(translate=1.0, flip=1.0, erasing=0.25)
"""For images of other channels, whose colours mean something else."""


def recipe_of(card: DataCard) -> Strengths:
    """Return the recipe of an image set."""
    by_channels = {1: GREY, 3: PHOTO}
    return RECIPES.get(card.name, by_channels.get(card.image_shape[0], MANY_CHANNELS))


def strengths_of(config: ClassifierConfig, card: DataCard) -> Strengths:
    """Return the strength of each operation in a trial.

    Raises:
        BadConfigError: colours are to be varied in images that have none.
    """
    recipe = asdict(recipe_of(card))
    strengths: dict[str, float] = {}
    for field in fields(Strengths):
        own: float = getattr(config, f"augment_{field.name}")
        strengths[field.name] = own if own >= 0 else config.augment * recipe[field.name]
    if strengths["color"] > 0 and card.image_shape[0] != 3:
        raise BadConfigError(f"augment.color {color_problem(card.name, card.image_shape[0])}")
    return Strengths(**strengths)
