"""Any classification model of torchvision, laid out for our classes and images.

Torchvision's layers are made with their own initial values, drawn from the init stream.
"""

from collections.abc import Mapping
from typing import Any, Final

import torch
import torchvision
from torch import nn

from hpo.training.models.dropout import take_over_dropout
from hpo.training.models.head import drop_before_head
from hpo.training.models.initialisation import drawing_from

NUM_CHANNELS: Final = 3
"""Every model of torchvision takes colour images."""

_ONE_SIZE: Final = ("vit_", "maxvit_")
"""Models whose weights are for one image size; others take any that is not too small."""

_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    # auxiliary heads would give several outputs in training
    "googlenet": {"aux_logits": False, "init_weights": True},
    "inception_v3": {"aux_logits": False, "init_weights": True},
}


def needs_one_size(name: str) -> bool:
    """Return whether a model is made for images of one size."""
    return name.startswith(_ONE_SIZE)


def lay_out_torchvision(
    name: str,
    num_classes: int,
    dropout: float,
    init: torch.Generator,
    dropout_stream: torch.Generator,
    *,
    is_pretrained: bool,
) -> nn.Module:
    """Return a model with its own initial weights.

    Args:
        name: torchvision's.
        num_classes: outputs of its last layer.
        dropout: probability at every dropout; before the last layer where the model has none.
        init: what initial weights are drawn from.
        dropout_stream: what dropout draws from.
        is_pretrained: whether weights follow; two models turn pixels into another range then.
    """
    options = dict(_OPTIONS.get(name, {}))
    if is_pretrained and options:
        options["transform_input"] = True
    with drawing_from(init):
        network: nn.Module = torchvision.models.get_model(
            name, weights=None, num_classes=num_classes, **options
        )
    if take_over_dropout(network, dropout, dropout_stream) == 0:
        drop_before_head(network, dropout, dropout_stream)
    return network


def default_weights(name: str) -> Any:
    """Return torchvision's entry of a model's default weights: its url, file and transform."""
    return torchvision.models.get_model_weights(name).DEFAULT
