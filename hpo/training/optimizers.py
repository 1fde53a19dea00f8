"""The update rules, and which weights decay."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from hpo.training.config import ClassifierConfig


def build_optimizer(config: ClassifierConfig, model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of `model`'s weights, on the device where they are.

    Only matrices and filters decay; norms and biases, which have one dimension, do not: pulling
    them to 0 limits nothing but the scale. For sgd the decay is part of the gradient, for adamw
    it bypasses the averages. `fused` does one pass over the weights in each update.

    Source: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2.
    """
    groups = _decay_groups(model.parameters(), config.weight_decay)
    match config.optimizer:
        case "sgd":
            return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, fused=True)
        case "adamw":
            return torch.optim.AdamW(groups, lr=config.lr, fused=True)


class OptimizerState:
    """An optimizer as a part of a checkpoint, which keeps values but no memory layout.

    Restored averages get the layout of their weights, as the optimizer itself gives them, so
    that a resumed update runs through the same kernels and rounds alike.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's own."""
        return self._optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the optimizer."""
        self._optimizer.load_state_dict(state)
        for weight, values in self._optimizer.state.items():
            for name, value in values.items():
                if isinstance(value, Tensor) and value.shape == weight.shape:
                    values[name] = torch.empty_like(weight).detach().copy_(value)


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Use `lr` from the next update on."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def _decay_groups(
    parameters: Iterable[nn.Parameter], weight_decay: float
) -> list[dict[str, object]]:
    weights = list(parameters)
    return [
        {"params": [p for p in weights if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in weights if p.ndim < 2], "weight_decay": 0.0},
    ]
