"""The trained and exported thing: raw pixels in, logits out.

Shapes: N images, C channels, H height, W width, K classes.
"""

import torch
from torch import Tensor, nn

from hpo.training.config import ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.determinism import RandomStreams
from hpo.training.models.initialisation import initialise, without_weights
from hpo.training.models.mlp import Mlp
from hpo.training.models.simple_cnn import SimpleCnn


class Normalize(nn.Module):
    """Raw pixels to zero mean and unit variance by channel, measured on the training split.

    Its numbers are buffers, so that a saved model carries them.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, card: DataCard) -> None:
        super().__init__()
        # (x / pixel_scale - mean) / std, as one multiplication and one addition
        mean = torch.tensor(card.mean, dtype=torch.float64)
        std = torch.tensor(card.std, dtype=torch.float64)
        self.register_buffer("scale", (1 / (card.pixel_scale * std)).float().reshape(1, -1, 1, 1))
        self.register_buffer("shift", (-mean / std).float().reshape(1, -1, 1, 1))

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return normalised float images of uint8 or float raw pixels."""
        return images_NCHW.to(self.scale.dtype) * self.scale + self.shift


class Classifier(nn.Module):
    """A network behind its normalisation."""

    def __init__(self, normalize: Normalize, network: nn.Module) -> None:
        super().__init__()
        self.normalize = normalize
        self.network = network

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return logits_NK of uint8 or float raw pixels."""
        logits_NK: Tensor = self.network(self.normalize(images_NCHW))
        return logits_NK


def build_model(config: ClassifierConfig, card: DataCard, streams: RandomStreams) -> Classifier:
    """Return a new model on the CPU, its weights drawn from the init stream.

    Filters lie in memory with channels last, which makes an epoch on digits a fifth shorter.
    """
    with without_weights():
        network = _lay_out(config, card, streams.dropout)
    initialise(network, streams.init)
    network.to(memory_format=torch.channels_last)
    return Classifier(Normalize(card), network)


def _lay_out(config: ClassifierConfig, card: DataCard, generator: torch.Generator) -> nn.Module:
    match config.model:
        case "simple_cnn":
            return SimpleCnn(
                card.image_shape, card.num_classes, config.width, config.dropout, generator
            )
        case "mlp":
            return Mlp(
                card.image_shape, card.num_classes, 8 * config.width, config.dropout, generator
            )
