"""A small convolutional network for images of 4 x 4 pixels and more.

Shapes: N images, C channels, H height, W width, K classes.
"""

import math
from typing import Final

import torch
from torch import Tensor, nn

from hpo.training.config import ClassifierConfig
from hpo.training.models.activation import ACTIVATIONS
from hpo.training.models.dropout import StreamDropout
from hpo.training.task import BadConfigError

FINAL_SIDE: Final = 8
"""Pixels that blocks of depth 0 leave of a side, at most."""
MAX_FACTOR: Final = 16
"""Of the first block's width; from the fifth block on the width stays."""


def automatic_depth(height: int, width: int) -> int:
    """Return how many blocks suit an image: 2 up to 32 pixels, 3 at 64, 5 at 224."""
    return max(2, math.ceil(math.log2(min(height, width) / FINAL_SIDE)))


class SimpleCnn(nn.Module):
    """Blocks of two convolutions, each half as large and twice as wide as the one before.

    A block pools straight after its first convolution, so that its norm, its activation and all
    of its second convolution see a quarter of the pixels: the same accuracy in a third of the
    time of pooling at the block's end.
    """

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
            config: its `width`, `depth`, `dropout`, `activation` and `batch_norm`.
            generator: what dropout draws from.

        Raises:
            BadConfigError: the images are too small for as many blocks.
        """
        super().__init__()
        num_in, height, width = image_shape
        depth = config.depth or automatic_depth(height, width)
        if min(height, width) < 2**depth:
            raise BadConfigError(
                f"depth is {depth}, but images of {height} x {width} pixels can be halved"
                f" {int(math.log2(min(height, width)))} times only; write a smaller depth"
            )
        layers: list[nn.Module] = []
        for block in range(depth):
            num_out = config.width * min(2**block, MAX_FACTOR)
            layers += _layers(num_in, num_out, config, is_pooled=True)
            layers += _layers(num_out, num_out, config, is_pooled=False)
            layers.append(StreamDropout(config.dropout, generator))
            num_in = num_out
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(num_in * (height >> depth) * (width >> depth), num_classes)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return logits_NK of normalised images."""
        logits_NK: Tensor = self.head(self.features(images_NCHW).flatten(1))
        return logits_NK


def _layers(
    num_in: int, num_out: int, config: ClassifierConfig, *, is_pooled: bool
) -> list[nn.Module]:
    """Return convolution, pooling, norm, activation; the norm's shift makes a bias superfluous."""
    layers: list[nn.Module] = [
        nn.Conv2d(num_in, num_out, kernel_size=3, padding=1, bias=not config.batch_norm)
    ]
    if is_pooled:
        layers.append(nn.MaxPool2d(2))
    if config.batch_norm:
        layers.append(nn.BatchNorm2d(num_out))
    return [*layers, ACTIVATIONS[config.activation]()]
