"""The update rules, and which weights decay."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from hpo.training.config import ClassifierConfig


class WeightGroup(Protocol):
    """Weights that are trained at one rate; `hpo.training.models.classifier.ParameterGroup`."""

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """By name; frozen weights are in no group."""
        ...

    @property
    def lr_scale(self) -> float:
        """Share of the learning rate."""
        ...


def build_optimizer(
    config: ClassifierConfig, groups: Sequence[WeightGroup]
) -> torch.optim.Optimizer:
    """Return the optimizer of the weights, on the device where they are.

    Only matrices and filters decay; norms and biases, which have one dimension, do not: pulling
    them to 0 limits nothing but the scale. `decay_norms` lets them decay too. For sgd, adam and
    rmsprop the decay is part of the gradient, for adamw it bypasses the averages. `fused` does
    one pass over the weights in each update.

    Source: Sutskever et al. 2013, "On the importance of initialization and momentum", section 2
    (sgd and Nesterov, in torch's form); Kingma and Ba 2015, "Adam", algorithm 1; Loshchilov and
    Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2 (adamw); Hinton 2012,
    lecture 6e (rmsprop).
    """
    divided = _decay_groups(groups, config.weight_decay, decays_all=config.decay_norms)
    betas = (config.beta1, config.beta2)
    match config.optimizer:
        case "sgd":
            return torch.optim.SGD(
                divided,
                lr=config.lr,
                momentum=config.momentum,
                nesterov=config.nesterov,
                fused=True,
            )
        case "adam":
            return torch.optim.Adam(divided, lr=config.lr, betas=betas, fused=True)
        case "adamw":
            return torch.optim.AdamW(divided, lr=config.lr, betas=betas, fused=True)
        case "rmsprop":
            return torch.optim.RMSprop(divided, lr=config.lr, momentum=config.momentum)


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
    """Use `lr` from the next update on, each group its share of it."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group["lr_scale"]


def _decay_groups(
    groups: Iterable[WeightGroup], weight_decay: float, *, decays_all: bool
) -> list[dict[str, object]]:
    divided: list[dict[str, object]] = []
    for group in groups:
        weights = list(group.parameters.values())
        kinds = {
            weight_decay: [w for w in weights if w.ndim >= 2 or decays_all],
            0.0: [w for w in weights if w.ndim < 2 and not decays_all],
        }
        if weight_decay == 0:
            kinds = {0.0: weights}
        divided.extend(
            {"params": kept, "weight_decay": decay, "lr_scale": group.lr_scale}
            for decay, kept in kinds.items()
            if kept
        )
    return divided
