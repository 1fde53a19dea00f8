"""A residual network of nine layers, which learns CIFAR-10 in minutes on one GPU.

Shapes: N images, C channels, H height, W width, K classes.
"""

import torch
from torch import Tensor, nn

from hpo.training.config import ClassifierConfig
from hpo.training.models.activation import ACTIVATIONS
from hpo.training.models.dropout import StreamDropout
from hpo.training.task import BadConfigError


class Residual(nn.Module):
    """Adds what its layers compute to what they are given."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, features_NCHW: Tensor) -> Tensor:
        """Return features of the same shape."""
        sum_NCHW: Tensor = features_NCHW + self.layers(features_NCHW)
        return sum_NCHW


class ResNet9(nn.Module):
    """Four convolutions of doubling width, two residual pairs, the maximum over the image.

    Source: Page 2019, "How to Train Your ResNet", part 4 (the network of DAWNBench).
    Differs: pools straight after each convolution, and drops features before the last layer.
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
            image_shape: channels, height, width; height and width at least 8.
            num_classes: number of outputs.
            config: its `width` (64 in the source), `dropout` and `activation`.
            generator: what dropout draws from.

        Raises:
            BadConfigError: the images are smaller than 8 pixels.
        """
        super().__init__()
        num_channels, height, image_width = image_shape
        if min(height, image_width) < 8:
            raise BadConfigError(
                f"model is resnet9, which needs images of 8 x 8 pixels or more;"
                f" these have {height} x {image_width}"
            )
        width, kind = config.width, config.activation
        self.features = nn.Sequential(
            *_layers(num_channels, width, kind),
            *_layers(width, 2 * width, kind, nn.MaxPool2d(2)),
            Residual(*_layers(2 * width, 2 * width, kind), *_layers(2 * width, 2 * width, kind)),
            *_layers(2 * width, 4 * width, kind, nn.MaxPool2d(2)),
            *_layers(4 * width, 8 * width, kind, nn.MaxPool2d(2)),
            Residual(*_layers(8 * width, 8 * width, kind), *_layers(8 * width, 8 * width, kind)),
        )
        self.dropout = StreamDropout(config.dropout, generator)
        self.head = nn.Linear(8 * width, num_classes)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return logits_NK of normalised images."""
        features_NC = self.features(images_NCHW).amax(dim=(2, 3))
        logits_NK: Tensor = self.head(self.dropout(features_NC))
        return logits_NK


def _layers(num_in: int, num_out: int, kind: str, *pooling: nn.Module) -> list[nn.Module]:
    return [
        nn.Conv2d(num_in, num_out, kernel_size=3, padding=1, bias=False),
        *pooling,
        nn.BatchNorm2d(num_out),
        ACTIVATIONS[kind](),
    ]
