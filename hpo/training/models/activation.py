"""What may follow a layer."""

from collections.abc import Callable, Mapping
from typing import Final

from torch import nn

ACTIVATIONS: Final[Mapping[str, Callable[[], nn.Module]]] = {
    "relu": nn.ReLU,
    "leaky_relu": lambda: nn.LeakyReLU(0.1),
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}
"""A maker of each, by the value of the key `activation`."""
