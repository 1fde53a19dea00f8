"""Dropout that draws from a stream of its own."""

import torch
from torch import Tensor, nn


class StreamDropout(nn.Module):
    """Zeroes units at random in training and scales the others up; the identity in evaluation.

    Differs from `nn.Dropout` in its source of randomness alone: the given generator instead of
    torch's global one, so that dropout moves no other draw and no other draw moves it.

    Source: Srivastava et al. 2014, "Dropout", section 10 (the scaled form).
    """

    def __init__(self, probability: float, generator: torch.Generator) -> None:
        """Hold the stream to draw from.

        Args:
            probability: of a unit to be zeroed, 0 to below 1; 0 draws nothing.
            generator: on the device of the inputs.
        """
        super().__init__()
        self.probability = probability
        self._generator = generator

    def forward(self, inputs: Tensor) -> Tensor:
        """Return `inputs` with a share of its elements zeroed."""
        if not self.training or self.probability == 0:
            return inputs
        kept = 1 - self.probability
        mask = torch.empty_like(inputs).bernoulli_(kept, generator=self._generator)
        return inputs * mask.mul_(1 / kept)

    def extra_repr(self) -> str:
        """Return what `print(model)` shows."""
        return f"probability={self.probability}"
