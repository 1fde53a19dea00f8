"""A small convolutional network for images of 8 x 8 pixels and more.

Shapes: N images, C channels, H height, W width, K classes.
"""

import torch
from torch import Tensor, nn

from hpo.training.models.dropout import StreamDropout


def _block(num_in: int, num_out: int) -> list[nn.Module]:
    """Return convolution, batch norm, ReLU; the norm's shift makes a bias superfluous."""
    return [
        nn.Conv2d(num_in, num_out, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(num_out),
        nn.ReLU(),
    ]


class SimpleCnn(nn.Module):
    """Two blocks, pooling, two blocks of twice the width, pooling, one linear layer."""

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        num_classes: int,
        width: int,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        """Lay out the layers.

        Args:
            image_shape: channels, height, width; height and width at least 4.
            num_classes: number of outputs.
            width: channels of the first block.
            dropout: probability after each pooling, 0 to below 1.
            generator: what dropout draws from.
        """
        super().__init__()
        num_channels, height, image_width = image_shape
        self.features = nn.Sequential(
            *_block(num_channels, width),
            *_block(width, width),
            nn.MaxPool2d(2),
            StreamDropout(dropout, generator),
            *_block(width, 2 * width),
            *_block(2 * width, 2 * width),
            nn.MaxPool2d(2),
            StreamDropout(dropout, generator),
        )
        self.head = nn.Linear(2 * width * (height // 4) * (image_width // 4), num_classes)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return logits_NK of normalised images."""
        logits_NK: Tensor = self.head(self.features(images_NCHW).flatten(1))
        return logits_NK
