"""The trained and exported thing: raw pixels in, logits out. Read this first.

Shapes: N images, C channels, H height, W width, K classes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import torch
from torch import Tensor, nn

from hpo.training.config import ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.determinism import RandomStreams
from hpo.training.keys.models import pretrained_size, torchvision_name
from hpo.training.keys.torchvision_models import TORCHVISION_MODELS
from hpo.training.layers import NonFiniteLayerError, tracing
from hpo.training.models.factory import call_factory
from hpo.training.models.head import frozen_norms, head_name, is_below
from hpo.training.models.initialisation import initialise, without_weights
from hpo.training.models.mlp import Mlp
from hpo.training.models.normalisation import InputFacts, Normalize, facts_of
from hpo.training.models.pretrained import Loaded, find_weights, load_weights
from hpo.training.models.resnet9 import ResNet9
from hpo.training.models.simple_cnn import SimpleCnn
from hpo.training.models.torchvision_network import (
    NUM_CHANNELS,
    default_weights,
    lay_out_torchvision,
    needs_one_size,
)
from hpo.training.task import BadConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterGroup:
    """Weights that are trained at one rate."""

    name: str
    """`all`, `backbone` or `head`."""
    parameters: dict[str, nn.Parameter]
    """By name; frozen weights are in no group."""
    lr_scale: float
    """Share of the learning rate."""


class Classifier(nn.Module):
    """A network behind its normalisation."""

    def __init__(self, normalize: Normalize, network: nn.Module) -> None:
        super().__init__()
        self.normalize = normalize
        self.network = network
        self.notes: tuple[str, ...] = ()
        """Sentences for the trial's log: what was loaded, what not and why, what is frozen."""
        self.weights_sha256: str | None = None
        """Of the file of pretrained weights."""
        self._is_backbone_frozen = False
        self._backbone_lr_scale = 1.0

    @property
    def input(self) -> InputFacts:
        """The numbers that the model uses, restored ones too, for whoever describes it."""
        return self.normalize.facts

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return logits_NK of uint8 or float raw pixels."""
        logits_NK: Tensor = self.network(self.normalize(images_NCHW))
        return logits_NK

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002  # torch's signature
        """Change the mode as every module does; norms of a frozen backbone keep evaluating."""
        super().train(mode)
        if self._is_backbone_frozen:
            for norm in frozen_norms(self.network):
                norm.eval()
        return self

    def train_apart(self, *, is_backbone_frozen: bool, backbone_lr_scale: float) -> None:
        """Train the last layer alone, or the rest of the network at a share of the rate."""
        self._is_backbone_frozen = is_backbone_frozen
        self._backbone_lr_scale = backbone_lr_scale
        if is_backbone_frozen:
            head = head_name(self.network)
            for name, weight in self.network.named_parameters():
                weight.requires_grad_(is_below(name, head))

    def parameter_groups(self) -> list[ParameterGroup]:
        """Return the weights to train, each in one group."""
        weights = {name: w for name, w in self.named_parameters() if w.requires_grad}
        if self._is_backbone_frozen:
            return [ParameterGroup(name="head", parameters=weights, lr_scale=1.0)]
        if self._backbone_lr_scale == 1:
            return [ParameterGroup(name="all", parameters=weights, lr_scale=1.0)]
        head = f"network.{head_name(self.network)}"
        parts: dict[bool, dict[str, nn.Parameter]] = {False: {}, True: {}}
        for name, weight in weights.items():
            parts[is_below(name, head)][name] = weight
        return [
            ParameterGroup(
                name="backbone", parameters=parts[False], lr_scale=self._backbone_lr_scale
            ),
            ParameterGroup(name="head", parameters=parts[True], lr_scale=1.0),
        ]


def build_model(
    config: ClassifierConfig, card: DataCard, streams: RandomStreams, *, is_restored: bool = False
) -> Classifier:
    """Return a new model on the CPU: initial weights from the init stream, or pretrained ones.

    Filters lie in memory with channels last, which makes an epoch on digits a fifth shorter.

    Args:
        config: which network.
        card: the images' shape, classes and normalisation.
        streams: `init` is drawn from now, `dropout` in training.
        is_restored: whether all weights are replaced after this, as in a resumed training: the
            file of pretrained weights is not read, and need not exist any more.

    Raises:
        BadConfigError: the network cannot be made, or its weights cannot be found.
    """
    facts = _input_facts(config, card)
    network = _lay_out(config, card, streams)
    loaded = None if is_restored else _load_pretrained(config, network)
    network.to(memory_format=torch.channels_last)
    model = Classifier(Normalize(facts), network)
    if loaded is not None:
        model.notes = loaded.notes
        model.weights_sha256 = loaded.sha256
        if loaded.normalisation is not None:
            _take_over_normalisation(model, loaded.normalisation)
    model.train_apart(
        is_backbone_frozen=config.freeze == "backbone",
        backbone_lr_scale=config.backbone_lr_scale,
    )
    model.notes = (*model.notes, *_notes(config, model))
    if not is_restored and config.model not in _OWN:
        _check_output(config, card, model)
    return model


_OWN: Final[Mapping[str, type[SimpleCnn | Mlp | ResNet9]]] = {
    "simple_cnn": SimpleCnn,
    "mlp": Mlp,
    "resnet9": ResNet9,
}


def _lay_out(config: ClassifierConfig, card: DataCard, streams: RandomStreams) -> nn.Module:
    if config.model in _OWN:
        with without_weights():
            network: nn.Module = _OWN[config.model](
                card.image_shape, card.num_classes, config, streams.dropout
            )
        initialise(network, streams.init)
        return network
    name = torchvision_name(config.model)
    if name is None:
        return call_factory(config, card, streams.init, streams.dropout)
    return lay_out_torchvision(
        name,
        card.num_classes,
        config.dropout,
        streams.init,
        streams.dropout,
        is_pretrained=config.pretrained is not False,
    )


def _input_facts(config: ClassifierConfig, card: DataCard) -> InputFacts:
    """Return the data's own numbers, or those that pretrained weights bring."""
    name = torchvision_name(config.model)
    if name is None:
        return facts_of(card, card.image_shape[0], None)
    channels, height, width = card.image_shape
    if channels not in (1, NUM_CHANNELS):
        raise BadConfigError(
            f"model is {name}, which takes images of 1 or {NUM_CHANNELS} channels;"
            f" these have {channels}"
        )
    size = pretrained_size(config)
    if needs_one_size(name):
        size = TORCHVISION_MODELS[name]
    elif getattr(config, "image_size", 0):
        size = None  # said for this trial: goes before what the weights were trained at
    facts = facts_of(card, NUM_CHANNELS, None if (height, width) == (size, size) else size)
    if config.pretrained is False:
        return facts
    transform = default_weights(name).transforms()
    return replace(facts, mean=tuple(transform.mean), std=tuple(transform.std))


def _load_pretrained(config: ClassifierConfig, network: nn.Module) -> Loaded | None:
    if config.pretrained is False:
        return None
    if isinstance(config.pretrained, str):
        return load_weights(network, Path(config.pretrained))
    name = torchvision_name(config.model)
    if name is None:
        raise BadConfigError(f"pretrained is true, but {config.model} is no torchvision model")
    return load_weights(network, find_weights(name))


def _take_over_normalisation(model: Classifier, numbers: tuple[Tensor, Tensor]) -> None:
    for name, given in zip(("scale", "shift"), numbers, strict=True):
        own = model.normalize.get_buffer(name)
        if given.numel() != own.numel():
            note = f"warning: the file's normalisation, for {given.numel()} channels, is not taken"
            model.notes += (f"{note} over: the images have {own.numel()}",)
            return
        own.copy_(given.reshape(own.shape))
    model.notes += ("pretrained: the normalisation is the file's own",)


def _notes(config: ClassifierConfig, model: Classifier) -> Iterator[str]:
    """Yield what else a trial's log says about its model."""
    if config.pretrained is not False:
        facts = model.input
        shown = [", ".join(f"{n:.3f}" for n in numbers) for numbers in (facts.mean, facts.std)]
        size = f", resized to {facts.image_size} pixels" if facts.image_size else ""
        yield f"images are normalised by mean {shown[0]} and std {shown[1]}{size}"
    if config.freeze == "backbone":
        num_trained = sum(w.numel() for w in model.parameters() if w.requires_grad)
        num = sum(w.numel() for w in model.parameters())
        yield f"freeze: {num_trained} of {num} weights are trained, those of the last layer"


def _check_output(config: ClassifierConfig, card: DataCard, model: Classifier) -> None:
    """Classify one black image with a network that is not ours.

    Raises:
        BadConfigError: it cannot, or the result is no row of logits.
    """
    sizes = " x ".join(str(size) for size in card.image_shape)
    model.eval()
    with torch.no_grad(), tracing(model) as trace:
        try:
            logits_NK = model(torch.zeros(1, *card.image_shape))
        except NonFiniteLayerError:  # somebody looks for these, and says so better
            raise
        except Exception as error:  # a network that is not ours may raise anything
            problem = BadConfigError(
                f"model is {config.model}, which cannot take images of {sizes}: at {trace.failed}"
                f" ({type(error).__name__}: {error}); write a larger image_size or another model"
            )
            for line in trace.table():
                problem.add_note(line)
            raise problem from error
        finally:
            model.train()
    if not isinstance(logits_NK, Tensor) or logits_NK.shape != (1, card.num_classes):
        shape = tuple(logits_NK.shape) if isinstance(logits_NK, Tensor) else type(logits_NK)
        raise BadConfigError(
            f"model is {config.model}, whose result for one image is {shape},"
            f" must be (1, {card.num_classes}): one logit for each class"
        )
