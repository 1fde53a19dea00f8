"""The keys that say how training images are varied."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from hpo.training.catalog import IMAGE_SETS
from hpo.training.keys.key import Check, Keys, OnlyWith, Whole

AS_RECIPE: Final = -1.0
"""The strength of an operation that takes its own from `augment` and the recipe."""


def _strength(value: float) -> float:
    if AS_RECIPE < value < 0:
        raise ValueError("must be 0 to 1, or -1 for what the recipe says")
    return value


Strength = Annotated[float, AfterValidator(_strength)]
"""Of one operation: 0 (off) to 1, or `AS_RECIPE`."""


def _operation(name: str, doc: str) -> Any:
    return Field(
        default=AS_RECIPE,
        ge=AS_RECIPE,
        le=1,
        alias=f"augment.{name}",
        description=f"{doc}; 0 to 1, or -1: augment times the recipe's share",
    )


class AugmentationKeys(Keys):
    """How training images are varied."""

    augment: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Augmentation strength, 0 (none) to 1 (the most): scales the recipe of the"
        " data",
    )
    augment_translate: Strength = _operation(
        "translate", "Shift, at 1 by up to an eighth of the side"
    )
    augment_crop: Strength = _operation(
        "crop", "Random resized crop, at 1 of a quarter of the area or more"
    )
    augment_rotation: Strength = _operation(
        "rotation", "Turn, at 1 by up to 15 degrees to either side"
    )
    augment_scale: Strength = _operation("scale", "Zoom, at 1 by up to 15 percent in or out")
    augment_flip: Strength = _operation(
        "flip", "Left-right reflection, at 1 of every second image"
    )
    augment_color: Strength = _operation(
        "color",
        "Brightness, contrast and saturation, at 1 by up to 40 percent; needs three channels",
    )
    augment_erasing: Strength = _operation(
        "erasing", "Share of images in which a rectangle is replaced by the mean"
    )
    augment_rand_ops: Whole = Field(
        default=0,
        ge=0,
        le=4,
        alias="augment.rand_ops",
        description="Operations that RandAugment draws for each image, 0 (off) to 4; 2 is usual",
    )
    augment_rand_magnitude: float = Field(
        default=0.3,
        ge=0,
        le=1,
        alias="augment.rand_magnitude",
        description="Magnitude of RandAugment's operations, 0 to 1",
    )
    augment_mixup: float = Field(
        default=0.0,
        ge=0,
        le=8,
        alias="augment.mixup",
        description="Alpha of MixUp, 0 (off) to 8; 0.2 is usual",
    )
    augment_cutmix: float = Field(
        default=0.0,
        ge=0,
        le=8,
        alias="augment.cutmix",
        description="Alpha of CutMix, 0 (off) to 8; 1 is usual. With MixUp too, each batch takes"
        " either by a coin",
    )


def color_problem(data: str, num_channels: int) -> str:
    """Return why images that are not red, green and blue cannot be varied in colour."""
    return (
        f"varies colours, which needs 3 channels, but the images of {data} have {num_channels};"
        " write 0 or remove it (augment.rand_ops varies brightness and contrast of any image)"
    )


def _check_color(config: Any) -> Iterator[str]:
    image_set = IMAGE_SETS.get(config.data)
    if config.augment_color > 0 and image_set is not None and image_set.image_shape[0] != 3:
        yield color_problem(config.data, image_set.image_shape[0])


CHECKS: Final[tuple[Check, ...]] = ((("augment.color", "data"), _check_color),)

ONLY_WITH: Final[OnlyWith] = {"augment.rand_magnitude": ("augment.rand_ops", (1, 2, 3, 4))}
