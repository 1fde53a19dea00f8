"""Initial weights, drawn from the init stream.

Torch's layers draw their own from the global generator when they are made. The project's networks
are made without memory first (`without_weights`) and filled here; for others the init stream takes
the global generator's place while they are made (`drawing_from`).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import init


@contextmanager
def without_weights() -> Iterator[None]:
    """Make modules inside without memory and without drawing; follow with `initialise`."""
    with torch.device("meta"):
        yield


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Let what draws from torch's global generator inside draw from `generator` instead."""
    before = torch.default_generator.get_state()
    torch.default_generator.set_state(generator.get_state())
    try:
        yield
        generator.set_state(torch.default_generator.get_state())
    finally:
        torch.default_generator.set_state(before)


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Give a module made `without_weights` its memory on the CPU and its initial values.

    Convolutions and linear layers: normal with variance 2 / fan-in, biases 0; norms: the identity.

    Source: He et al. 2015, "Delving Deep into Rectifiers", section 2.2.

    Raises:
        TypeError: a layer is of a type that has no rule here.
    """
    module.to_empty(device="cpu")
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            if layer.bias is not None:
                init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            layer.reset_parameters()
        elif next(layer.parameters(recurse=False), None) is not None:
            raise TypeError(f"{type(layer).__name__} has no rule for its initial weights; add one")
