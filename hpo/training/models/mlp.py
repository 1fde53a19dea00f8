"""A multi-layer perceptron on the pixels.

Shapes: N images, C channels, H height, W width, K classes.
"""

import math
from typing import Final

import torch
from torch import Tensor, nn

from hpo.training.config import ClassifierConfig
from hpo.training.models.activation import ACTIVATIONS
from hpo.training.models.dropout import StreamDropout

AUTOMATIC_DEPTH: Final = 2
"""Hidden layers where `depth` is 0."""
UNITS_OF_WIDTH: Final = 8
"""Units of a hidden layer for each unit of `width`."""


class Mlp(nn.Module):
    """Hidden layers of equal size, each followed by an activation and dropout."""

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        num_classes: int,
        config: ClassifierConfig,
        generator: torch.Generator,
    ) -> None:
        """Lay out the layers.

        Args:
            image_shape: channels, height, width.
            num_classes: number of outputs.
            config: its `width`, `depth`, `dropout` and `activation`.
            generator: what dropout draws from.
        """
        super().__init__()
        num_in, num_hidden = math.prod(image_shape), UNITS_OF_WIDTH * config.width
        layers: list[nn.Module] = [nn.Flatten()]
        for _ in range(config.depth or AUTOMATIC_DEPTH):
            layers += [
                nn.Linear(num_in, num_hidden),
                ACTIVATIONS[config.activation](),
                StreamDropout(config.dropout, generator),
            ]
            num_in = num_hidden
        self.layers = nn.Sequential(*layers, nn.Linear(num_in, num_classes))

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return logits_NK of normalised images."""
        logits_NK: Tensor = self.layers(images_NCHW)
        return logits_NK
