"""A multi-layer perceptron on the pixels.

Shapes: N images, C channels, H height, W width, K classes.
"""

import math

import torch
from torch import Tensor, nn

from hpo.training.models.dropout import StreamDropout


class Mlp(nn.Module):
    """Two hidden layers of equal size with ReLU and dropout."""

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        num_classes: int,
        num_hidden: int,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        """Lay out the layers.

        Args:
            image_shape: channels, height, width.
            num_classes: number of outputs.
            num_hidden: units of each hidden layer.
            dropout: probability after each hidden layer, 0 to below 1.
            generator: what dropout draws from.
        """
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(image_shape), num_hidden),
            nn.ReLU(),
            StreamDropout(dropout, generator),
            nn.Linear(num_hidden, num_hidden),
            nn.ReLU(),
            StreamDropout(dropout, generator),
            nn.Linear(num_hidden, num_classes),
        )

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return logits_NK of normalised images."""
        logits_NK: Tensor = self.layers(images_NCHW)
        return logits_NK
