"""How a model is laid out and run on its device: memory layout, recomputation, compilation.

None of it changes what the model computes, but for the last bits.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from hpo.training.config import ClassifierConfig
from hpo.training.determinism import RandomStreams
from hpo.training.keys.key import parts
from hpo.training.log import say
from hpo.training.precision import keep_fp32

_COMPILING: Final = "compile: true, the first epoch compiles the model, which takes up to minutes"


def arrange(model: nn.Module, config: ClassifierConfig, streams: RandomStreams) -> None:
    """Prepare a model that is on its device for being called as the configuration says.

    Names of weights stay as they are, so that checkpoints do not depend on any of it.

    Raises:
        BadConfigError: a layer of `fp32_layers` is not in the model.
    """
    device = next(model.parameters()).device
    model.to(memory_format=_memory_format(config, device.type))
    keep_fp32(model, parts(config.fp32_layers) if config.precision != "fp32" else ())
    if config.checkpoint_activations:
        checkpoint_activations(model, streams.dropout)
    if config.compile:
        say(_COMPILING)
        model.compile()


def _memory_format(config: ClassifierConfig, device_type: str) -> torch.memory_format:
    """Return the layout of filters, which convolutions pass on to what they compute.

    With channels last an epoch of digits on a CPU is a fifth shorter; on GPUs the units for
    16-bit numbers want it, and in fp32 it is often slower.
    """
    is_auto_on = device_type != "cuda" or config.precision != "fp32"
    is_last = config.channels_last == "on" or (config.channels_last == "auto" and is_auto_on)
    return torch.channels_last if is_last else torch.contiguous_format


def checkpoint_activations(model: nn.Module, dropout: torch.Generator) -> None:
    """Forget what layers compute, and compute it again in the backward pass.

    Every outermost `nn.Sequential` of n layers is run in pieces of about sqrt(n), of which only
    the inputs are remembered. The second time, dropout draws the units of the first, and batch
    norm leaves its running statistics alone.

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 3.

    Args:
        model: whose sequences are replaced by ones of the same names.
        dropout: the stream that its dropout draws from.
    """
    for sequence in _outermost_sequences(model):
        layers = list(sequence)
        size = max(1, round(math.sqrt(len(layers))))
        pieces = [layers[start : start + size] for start in range(0, len(layers), size)]
        sequence.forward = _in_pieces(pieces, dropout)  # type: ignore[method-assign]


def _outermost_sequences(module: nn.Module) -> Iterator[nn.Sequential]:
    for child in module.children():
        if isinstance(child, nn.Sequential) and len(child) > 1:
            yield child
        else:
            yield from _outermost_sequences(child)


def _in_pieces(
    pieces: list[list[nn.Module]], dropout: torch.Generator
) -> Callable[[Tensor], Tensor]:
    def forward(inputs: Tensor) -> Tensor:
        for piece in pieces:
            if torch.is_grad_enabled():
                inputs = _Recomputed(piece, dropout)(inputs)
            else:
                inputs = _run(piece, inputs)
        return inputs

    return forward


def _run(piece: list[nn.Module], inputs: Tensor) -> Tensor:
    for layer in piece:
        inputs = layer(inputs)
    return inputs


class _Recomputed:
    """One run of some layers that will be run again."""

    def __init__(self, piece: list[nn.Module], dropout: torch.Generator) -> None:
        self._piece = piece
        self._dropout = dropout
        self._drawn_from = dropout.get_state()

    def __call__(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = checkpoint(
            _run,
            self._piece,
            inputs,
            use_reentrant=False,
            preserve_rng_state=False,  # nothing draws from torch's own generator
            context_fn=lambda: (_nothing(), self._again()),
        )
        return outputs

    @contextmanager
    def _again(self) -> Iterator[None]:
        now = self._dropout.get_state()
        self._dropout.set_state(self._drawn_from)
        statistics = [
            (norm, name, buffer)
            for layer in self._piece
            for norm in layer.modules()
            if isinstance(norm, _BatchNorm)
            for name, buffer in norm.named_buffers(recurse=False)
        ]
        for norm, name, buffer in statistics:
            setattr(norm, name, buffer.clone())  # moved along, and thrown away
        try:
            yield
        finally:
            for norm, name, buffer in statistics:
                setattr(norm, name, buffer)
            self._dropout.set_state(now)


@contextmanager
def _nothing() -> Iterator[Any]:
    yield
