"""Random variations of training images, a new one for each image in each epoch. Read this first.

Shapes: N images, C channels, H height, W width, K classes.
"""

from dataclasses import astuple, dataclass
from typing import Final

import torch
from torch import Tensor

from hpo.training.augmentation import affine, color, erasing
from hpo.training.augmentation.affine import is_affine, move
from hpo.training.augmentation.color import vary_color
from hpo.training.augmentation.erasing import erase
from hpo.training.augmentation.mixing import Mixing
from hpo.training.augmentation.rand_augment import RandAugment
from hpo.training.augmentation.recipe import Strengths, strengths_of
from hpo.training.config import ClassifierConfig
from hpo.training.data.card import DataCard

_FOR_AFFINE: Final = slice(0, affine.NUM_DRAWS)
_FOR_COLOR: Final = slice(_FOR_AFFINE.stop, _FOR_AFFINE.stop + color.NUM_DRAWS)
_FOR_ERASING: Final = slice(_FOR_COLOR.stop, _FOR_COLOR.stop + erasing.NUM_DRAWS)
_NUM_DRAWS: Final = _FOR_ERASING.stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Augmentation:
    """What is done to a batch of training images, and in which order.

    1. One affine map: translate, crop, rotation, scale, flip.
    2. Colours.
    3. RandAugment.
    4. Erasing.
    5. `mix`: MixUp or CutMix, which change the targets too.

    What is off draws nothing. While any of 1, 2 and 4 is on, each image gets as many draws as if
    all were, so that a stronger or a further operation moves no other's draws.
    """

    strengths: Strengths
    """Of the recipe's operations."""
    rand_augment: RandAugment | None
    mixing: Mixing | None
    pixel_scale: float
    """The largest raw pixel value."""
    mean: tuple[float, ...]
    """By channel, of pixels divided by `pixel_scale`: what erased pixels become."""
    generator: torch.Generator
    """On the CPU, so that every device sees the same images; the parts draw from it too."""

    @classmethod
    def none(cls) -> "Augmentation":
        """Return what changes nothing."""
        return cls(
            strengths=Strengths(),
            rand_augment=None,
            mixing=None,
            pixel_scale=1.0,
            mean=(0.0,),
            generator=torch.Generator(),
        )

    @property
    def is_mixing(self) -> bool:
        """Whether `mix` changes images and targets."""
        return self.mixing is not None

    def __call__(self, images_NCHW: Tensor) -> Tensor:
        """Return varied images as float raw pixels; the very images given where all is off."""
        strengths = self.strengths
        is_recipe_on = any(astuple(strengths))
        if not is_recipe_on and self.rand_augment is None:
            return images_NCHW
        images_NCHW = images_NCHW.float()
        num_drawn = _NUM_DRAWS if is_recipe_on else 0
        draws_ND = torch.rand(len(images_NCHW), num_drawn, generator=self.generator)
        if is_affine(strengths):
            images_NCHW = move(images_NCHW, draws_ND[:, _FOR_AFFINE], strengths)
        if strengths.color:
            images_NCHW = vary_color(
                images_NCHW, draws_ND[:, _FOR_COLOR], strengths.color, self.pixel_scale
            )
        if self.rand_augment is not None:
            images_NCHW = self.rand_augment(images_NCHW)
        if strengths.erasing:
            mean = torch.tensor(self.mean, device=images_NCHW.device) * self.pixel_scale
            images_NCHW = erase(
                images_NCHW,
                draws_ND[:, _FOR_ERASING],
                strengths.erasing,
                mean.reshape(1, -1, 1, 1),
            )
        return images_NCHW

    def mix(self, images_NCHW: Tensor, targets: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
        """Return images and targets mixed with others of the batch; in training only.

        Args:
            images_NCHW: pixels, raw or varied.
            targets: int64 labels_N, which become float32 targets_NK; or float targets of any
                kind, which are mixed as they are.
            num_classes: K.
        """
        if self.mixing is None:
            return images_NCHW, targets
        return self.mixing(images_NCHW.float(), targets, num_classes)


def build_augmentation(
    config: ClassifierConfig, card: DataCard, generator: torch.Generator
) -> Augmentation:
    """Return what a trial does to its training images.

    Raises:
        BadConfigError: an operation does not suit the images' channels.
    """
    num_ops, mixup, cutmix = (
        config.augment_rand_ops,
        config.augment_mixup,
        config.augment_cutmix,
    )
    rand_augment = RandAugment(num_ops, config.augment_rand_magnitude, card.pixel_scale, generator)
    return Augmentation(
        strengths=strengths_of(config, card),
        rand_augment=rand_augment if num_ops else None,
        mixing=Mixing(mixup, cutmix, generator) if mixup or cutmix else None,
        pixel_scale=card.pixel_scale,
        mean=card.mean,
        generator=generator,
    )
