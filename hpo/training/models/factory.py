"""A network from a function of the user's: `model: package.module:factory`.

The function is called with three arguments by name and returns an `nn.Module` that turns
normalised float images (N, C, H, W) into logits (N, `num_classes`):

1. `num_classes`: the number of outputs,
2. `image_shape`: channels, height, width,
3. `config`: every key of the trial by name, such as `config["width"]`.

Its initial weights may come from torch's global generator, which is the init stream meanwhile. Its
dropouts, which must be modules, get the trial's dropout and draw from the trial's dropout stream.
The module is looked for in the current folder first.
"""

import importlib

import torch
from torch import nn

from hpo.training.config import ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.models.dropout import take_over_dropout
from hpo.training.models.initialisation import drawing_from
from hpo.training.origin.origin import user_folder_first
from hpo.training.task import BadConfigError


def call_factory(
    config: ClassifierConfig, card: DataCard, init: torch.Generator, dropout: torch.Generator
) -> nn.Module:
    """Return what the user's function makes.

    Raises:
        BadConfigError: it cannot be imported or called, or returns something else.
    """
    module_name, _, function_name = config.model.partition(":")
    user_folder_first()
    try:
        with drawing_from(init):
            network = getattr(importlib.import_module(module_name), function_name)(
                num_classes=card.num_classes,
                image_shape=card.image_shape,
                config=config.model_dump(by_alias=True),
            )
    except Exception as error:  # the user's code may raise anything
        raise BadConfigError(
            f"model is {config.model}, which raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(network, nn.Module):
        raise BadConfigError(
            f"model is {config.model}, which returned {type(network).__name__},"
            " must be a torch.nn.Module"
        )
    take_over_dropout(network, config.dropout, dropout)
    return network
