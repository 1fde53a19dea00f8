"""The last layer of a network, and what comes before it.

The last layer is what is trained anew when a network moves to other classes; everything else is
the backbone.

Shapes: N images, F features.
"""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from hpo.training.models.dropout import StreamDropout


class DroppedLinear(nn.Linear):
    """A linear layer that drops of its inputs; its weights are named like a plain one's."""

    def __init__(self, layer: nn.Linear, probability: float, generator: torch.Generator) -> None:
        """Take over a layer's weights."""
        has_bias = layer.bias is not None
        super().__init__(layer.in_features, layer.out_features, has_bias, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self.dropout = StreamDropout(probability, generator)

    def forward(self, features_NF: Tensor) -> Tensor:
        """Return one number for each class."""
        return super().forward(self.dropout(features_NF))


def head_name(network: nn.Module) -> str | None:
    """Return the name of the last layer: of all linear and convolution layers the last declared.

    A module named `head` goes first. None: the network has no such layer.
    """
    names = [
        name
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    ]
    if names and "head" in dict(network.named_children()):
        return "head"
    return names[-1] if names else None


def drop_before_head(network: nn.Module, probability: float, generator: torch.Generator) -> None:
    """Let a network without any dropout drop the features that reach its last layer."""
    name = head_name(network)
    head = network.get_submodule(name) if name else None
    if name and type(head) is nn.Linear:
        network.set_submodule(name, DroppedLinear(head, probability, generator))


def frozen_norms(network: nn.Module) -> list[nn.Module]:
    """Return the layers of the backbone that would change in training without any gradient."""
    head = head_name(network)
    return [
        module
        for name, module in network.named_modules()
        if isinstance(module, _BatchNorm | _InstanceNorm) and not is_below(name, head)
    ]


def is_below(name: str, head: str | None) -> bool:
    """Return whether a module or weight is the last layer or a part of it."""
    return head is not None and (name == head or name.startswith(f"{head}."))
