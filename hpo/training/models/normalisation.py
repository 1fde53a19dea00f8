"""Raw pixels -> what a network expects: its size, its channels, zero mean and unit variance.

Shapes: N images, C channels, H height, W width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from hpo.training.data.card import DataCard


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFacts:
    """What a network is given, as far as it can differ from the data's own."""

    mean: tuple[float, ...]
    """By channel, of pixels divided by `pixel_scale`; three for grey images in a colour model."""
    std: tuple[float, ...]
    """By channel, likewise."""
    pixel_scale: float
    """The largest raw pixel value."""
    image_size: int | None = None
    """Side in pixels that images are resized to inside of the model; None: as they come."""


class Normalize(nn.Module):
    """Raw pixels to the mean and variance that the network knows.

    The numbers are buffers, so that a saved model carries them. Where they are for three channels
    and the images have one, each channel gets the same image.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, facts: InputFacts) -> None:
        super().__init__()
        # (x / pixel_scale - mean) / std, as one multiplication and one addition
        mean = torch.tensor(facts.mean, dtype=torch.float64)
        std = torch.tensor(facts.std, dtype=torch.float64)
        scale, shift = 1 / (facts.pixel_scale * std), -mean / std
        self.register_buffer("scale", scale.float().reshape(1, -1, 1, 1))
        self.register_buffer("shift", shift.float().reshape(1, -1, 1, 1))
        self._pixel_scale = facts.pixel_scale
        self._image_size = facts.image_size

    @property
    def facts(self) -> InputFacts:
        """The numbers as the buffers hold them, to seven digits."""
        std = [1 / (scale * self._pixel_scale) for scale in self.scale.flatten().tolist()]
        mean = [-shift * s for shift, s in zip(self.shift.flatten().tolist(), std, strict=True)]
        return InputFacts(
            mean=tuple(round(number, 7) for number in mean),
            std=tuple(round(number, 7) for number in std),
            pixel_scale=self._pixel_scale,
            image_size=self._image_size,
        )

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return normalised float images of uint8 or float raw pixels."""
        images_NCHW = images_NCHW.to(self.scale.dtype)
        if self._image_size is not None:
            sides = (self._image_size, self._image_size)
            images_NCHW = functional.interpolate(
                images_NCHW, size=sides, mode="bilinear", align_corners=False
            )
        return images_NCHW * self.scale + self.shift


def facts_of(card: DataCard, num_channels: int, image_size: int | None) -> InputFacts:
    """Return the data's own numbers, for a network of so many channels."""
    repeats = num_channels if card.image_shape[0] == 1 else 1
    return InputFacts(
        mean=card.mean * repeats,
        std=card.std * repeats,
        pixel_scale=card.pixel_scale,
        image_size=image_size,
    )
