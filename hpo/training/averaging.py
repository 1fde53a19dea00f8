"""Averages of the weights over updates, which are evaluated and saved in their place."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class WeightAverage:
    """An exponential moving average of weights and float buffers, such as a norm's statistics.

    After each update from `start_step` on, a = decay a + (1 - decay) w; the first time, a = w.
    Before that, and with a decay of 0, the weights stand for themselves. Whole-number buffers
    are those of the model.

    Source: Polyak and Juditsky 1992, in the exponential form of Tarvainen and Valpola 2017,
    "Mean teachers", equation 2. Equal to torch's `AveragedModel` with `get_ema_multi_avg_fn`.
    """

    def __init__(self, model: nn.Module, decay: float, start_step: int) -> None:
        """Average nothing yet.

        Args:
            model: whose weights are averaged; never a copy.
            decay: 0 (no average) to below 1.
            start_step: updates before the first that is averaged.
        """
        self._decay = decay
        self._start_step = start_step
        state = model.state_dict() if decay else {}
        self._live = {name: t.detach() for name, t in state.items() if t.is_floating_point()}
        self._average: dict[str, Tensor] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether anything will ever be averaged."""
        return self._decay > 0

    @torch.no_grad()
    def update(self, num_steps: int) -> None:
        """Take in the weights after an update.

        Args:
            num_steps: updates done, this one included.
        """
        if not self._decay or num_steps <= self._start_step:
            return
        if not self._average:
            self._average = {name: tensor.clone() for name, tensor in self._live.items()}
            return
        torch._foreach_lerp_(  # one kernel for all, as torch's own average does
            list(self._average.values()), list(self._live.values()), 1 - self._decay
        )

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the average in the place of the weights for as long as the context lasts."""
        if not self._average:
            yield
            return
        own = {name: tensor.clone() for name, tensor in self._live.items()}
        self._write(self._average)
        try:
            yield
        finally:
            self._write(own)

    def state_dict(self) -> dict[str, Any]:
        """Return the average; empty before it begins."""
        return dict(self._average)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from an average."""
        self._average = {
            name: torch.empty_like(self._live[name]).copy_(tensor)
            for name, tensor in state.items()
        }

    @torch.no_grad()
    def _write(self, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in self._live.items():
            tensor.copy_(tensors[name])
