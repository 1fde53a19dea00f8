"""Which training images an epoch sees, and in which order.

Shapes: N images, K target columns.
"""

import torch
from torch import Tensor


class Sampling:
    """Draws the order of an epoch; it has as many entries as there are images.

    `uniform` takes every image once. `balanced` draws with replacement, each image with a
    probability of one over its class's count, so that every class is equally frequent: a rare
    class is repeated and a frequent one is seen in part.
    """

    def __init__(self, kind: str, labels_N: Tensor) -> None:
        """Count the classes.

        Args:
            kind: `uniform` or `balanced`.
            labels_N: int64 class indices of the training split, on any device.
        """
        self._num_images = len(labels_N)
        self._weights_N: Tensor | None = None
        if kind == "balanced":
            labels_N = labels_N.cpu()
            self._weights_N = (1.0 / labels_N.bincount().double())[labels_N]

    def order(self, generator: torch.Generator) -> Tensor:
        """Return int64 indices into the split, on the CPU, drawn from `generator` alone."""
        if self._weights_N is None:
            return torch.randperm(self._num_images, generator=generator)
        # torch.multinomial takes at most 2**24 weights; a search in their running sum takes any.
        steps_N = self._weights_N.cumsum(0)
        draws_N = torch.rand(self._num_images, generator=generator, dtype=torch.float64)
        return torch.searchsorted(steps_N, draws_N * steps_N[-1], right=True).clamp_(
            max=self._num_images - 1
        )
