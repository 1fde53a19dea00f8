"""Small models to test, of ours and of others."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hpo.training.config import ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.determinism import STREAM_NAMES, RandomStreams
from hpo.training.models.classifier import Classifier, build_model

Shape = tuple[int, int, int]

SHAPES: list[Shape] = [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64)]


def card(image_shape: Shape, num_classes: int = 4) -> DataCard:
    return DataCard(
        name="made",
        fingerprint="",
        num_train=10,
        num_val=5,
        num_test=5,
        num_classes=num_classes,
        class_labels=tuple(str(label) for label in range(num_classes)),
        image_shape=image_shape,
        pixel_scale=16.0,
        mean=(0.5,) * image_shape[0],
        std=(0.25,) * image_shape[0],
    )


def streams(**seeds: int) -> RandomStreams:
    return RandomStreams(dict.fromkeys(STREAM_NAMES, 0) | seeds)


def build(
    model: str = "simple_cnn",
    shape: Shape = SHAPES[0],
    init: int = 0,
    is_restored: bool = False,
    **keys: Any,
) -> Classifier:
    config = ClassifierConfig.parse({"data": "digits", "model": model, "width": 4, **keys})
    return build_model(config, card(shape), streams(init=init), is_restored=is_restored)


def pixels(shape: Shape, num_images: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 17, (num_images, *shape), dtype=torch.uint8, generator=generator)


class Small(nn.Module):
    """A network as a user writes one: torch's own initial values and dropouts."""

    def __init__(self, num_in: int, num_classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(num_in, 6, 3, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Dropout2d(0.9),
            nn.AdaptiveAvgPool2d(2),
        )
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(24, num_classes)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        logits_NK: Tensor = self.head(self.dropout(self.features(images_NCHW).flatten(1)))
        return logits_NK


def small(num_classes: int, image_shape: Shape, config: Mapping[str, Any]) -> nn.Module:
    """Make a network, as `model: tests.unit.training.models.networks:small` calls it."""
    assert config["width"] == 4
    assert "augment.erasing" in config
    return Small(image_shape[0], num_classes)


def headless(num_classes: int, image_shape: Shape, config: Mapping[str, Any]) -> nn.Module:
    return nn.Flatten()


def failing(num_classes: int, image_shape: Shape, config: Mapping[str, Any]) -> nn.Module:
    raise KeyError("widht")


def no_network(num_classes: int, image_shape: Shape, config: Mapping[str, Any]) -> str:
    return "resnet18"


def strange_dropout(num_classes: int, image_shape: Shape, config: Mapping[str, Any]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.AlphaDropout(), nn.Linear(64, num_classes))
