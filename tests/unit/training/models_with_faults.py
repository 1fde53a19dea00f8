"""Networks with one fault each, for `model: tests.unit.training.models_with_faults:NAME`."""

import math
from typing import Any

import torch
from torch import Tensor, nn


def sound(num_classes: int, image_shape: tuple[int, int, int], config: Any) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(image_shape), 32), nn.ReLU(), nn.Linear(32, num_classes)
    )


def wrong_shape(num_classes: int, image_shape: tuple[int, int, int], config: Any) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(image_shape[0], 4, 3, padding=1),
        nn.Flatten(),
        nn.Linear(100, num_classes),  # there are 4 x 8 x 8 values
    )


def frozen(num_classes: int, image_shape: tuple[int, int, int], config: Any) -> nn.Module:
    return sound(num_classes, image_shape, config).requires_grad_(requires_grad=False)


def with_nan(num_classes: int, image_shape: tuple[int, int, int], config: Any) -> nn.Module:
    network = sound(num_classes, image_shape, config)
    with torch.no_grad():
        network.get_parameter("3.weight")[0, 0] = math.nan
    return network


class _Idle(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.idle = nn.Linear(3, 3)

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.network(images)
        return outputs


def with_idle_layer(num_classes: int, image_shape: tuple[int, int, int], config: Any) -> nn.Module:
    return _Idle(sound(num_classes, image_shape, config))


class _Dead(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.network(images) * 0.0
        return outputs


def with_dead_output(
    num_classes: int, image_shape: tuple[int, int, int], config: Any
) -> nn.Module:
    return _Dead(sound(num_classes, image_shape, config))


class _Forgetful(nn.Module):
    """Does not take back one of the numbers that it writes."""

    scale: Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("scale", torch.ones(1))

    def forward(self, images: Tensor) -> Tensor:
        if self.training:
            self.scale = self.scale * 0.999
        outputs: Tensor = self.network(images) * self.scale
        return outputs

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        state = {**state, f"{prefix}scale": torch.ones(1)}
        super()._load_from_state_dict(state, prefix, *rest)


def forgetful(num_classes: int, image_shape: tuple[int, int, int], config: Any) -> nn.Module:
    return _Forgetful(sound(num_classes, image_shape, config))


def exploding(num_classes: int, image_shape: tuple[int, int, int], config: Any) -> nn.Module:
    network = sound(num_classes, image_shape, config)
    with torch.no_grad():
        network.get_parameter("3.weight").mul_(1000.0)
    return network


class _Raising(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        if self.training:
            raise RuntimeError("nothing goes through in training")
        outputs: Tensor = self.network(images)
        return outputs


def raising_in_training(
    num_classes: int, image_shape: tuple[int, int, int], config: Any
) -> nn.Module:
    return _Raising(sound(num_classes, image_shape, config))
