"""Dropout that draws from a stream of its own, also in models that are not ours."""

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torchvision.ops import StochasticDepth

from hpo.training.task import BadConfigError


class StreamDropout(nn.Module):
    """Zeroes units at random in training and scales the others up; the identity in evaluation.

    Differs from `nn.Dropout` in its source of randomness alone: the given generator instead of
    torch's global one, so that dropout moves no other draw and no other draw moves it. A deep
    copy draws from the same generator.

    Source: Srivastava et al. 2014, "Dropout", section 10 (the scaled form).
    """

    def __init__(
        self, probability: float, generator: torch.Generator, num_own_dims: int | None = None
    ) -> None:
        """Hold the stream to draw from.

        Args:
            probability: of a unit to be zeroed, 0 to below 1; 0 draws nothing.
            generator: on the device of the inputs.
            num_own_dims: first dimensions in which each index is drawn for itself, what lies
                below it shares its fate: 2 for whole channels, 1 for whole examples; None for
                single units.
        """
        super().__init__()
        self.probability = probability
        self._generator = generator
        self._num_own_dims = num_own_dims

    def __deepcopy__(self, memo: dict[int, object]) -> "StreamDropout":
        copied = StreamDropout(self.probability, self._generator, self._num_own_dims)
        return copied.train(self.training)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return `inputs` with a share of its elements zeroed."""
        if not self.training or self.probability == 0:
            return inputs
        kept = 1 - self.probability
        mask = self._empty_mask(inputs).bernoulli_(kept, generator=self._generator)
        return inputs * mask.mul_(1 / kept)

    def _empty_mask(self, inputs: Tensor) -> Tensor:
        if self._num_own_dims is None:
            return torch.empty_like(inputs)
        num_shared = inputs.ndim - self._num_own_dims
        return inputs.new_empty([*inputs.shape[: self._num_own_dims], *[1] * num_shared])

    def extra_repr(self) -> str:
        """Return what `print(model)` shows."""
        return f"probability={self.probability}"


_OWN_DIMS: Final[Mapping[type[nn.Module], int | None]] = {
    nn.Dropout: None,
    nn.Dropout1d: 2,
    nn.Dropout2d: 2,
    nn.Dropout3d: 2,
}


def take_over_dropout(model: nn.Module, probability: float, generator: torch.Generator) -> int:
    """Put `StreamDropout` in the place of every dropout of a model; return how many there were.

    Every dropout gets `probability`, whatever the model gave it. Stochastic depth (whole residual
    branches) keeps its own probabilities and draws from the stream too. Dropout inside of
    attention, which torch computes in one kernel, is left at the model's own probability.

    Raises:
        BadConfigError: the model drops in a way that no stream can feed.
    """
    num_replaced = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, StreamDropout):
                num_replaced += 1
            elif type(child) in _OWN_DIMS:
                own_dims = _OWN_DIMS[type(child)]
                setattr(module, name, StreamDropout(probability, generator, own_dims))
                num_replaced += 1
            elif isinstance(child, StochasticDepth):
                own_dims = 1 if child.mode == "row" else 0
                setattr(module, name, StreamDropout(child.p, generator, own_dims))
            elif isinstance(child, _DropoutNd):
                raise BadConfigError(
                    f"the model uses {type(child).__name__}, which cannot draw from the trial's"
                    " dropout stream; use nn.Dropout or hpo.training.models.dropout.StreamDropout"
                )
    return num_replaced
