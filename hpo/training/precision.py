"""Number formats: what is computed in 16 bits, and what stays in 32."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from hpo.training.task import BadConfigError

PrecisionKind = Literal["fp32", "bf16", "fp16"]

_DTYPES: Final = {"bf16": torch.bfloat16, "fp16": torch.float16}
_SMALLEST_SCALE: Final = 1.0
"""Below it fp16 gradients are not small but broken: the scale began at 65 536."""


class Precision:
    """Runs the model in a number format, and scales the loss where that format needs it.

    Weights, averages and losses are fp32. In bf16 and fp16 convolutions and matrix products take
    16-bit inputs; norms keep their weights and statistics in fp32 and sum in fp32. fp16 reaches
    only down to 6e-8, so the loss is scaled up before the backward pass and gradients down after
    it; an update whose scaled gradients overflow is skipped and the scale halved.

    Source: Micikevicius et al. 2018, "Mixed Precision Training", section 3.
    """

    def __init__(self, kind: PrecisionKind, device: str) -> None:
        """Choose a format.

        Args:
            kind: of the format.
            device: what is trained on, such as `cpu` or `cuda:0`.
        """
        self._device_type = torch.device(device).type
        self._dtype = _DTYPES.get(kind)
        self._scaler = (
            torch.amp.GradScaler(self._device_type, init_scale=2.0**16) if kind == "fp16" else None
        )

    @property
    def is_scaled(self) -> bool:
        """Whether gradients may overflow without harm."""
        return self._scaler is not None

    @property
    def is_broken(self) -> bool:
        """Whether the scale fell so low that the gradients themselves must be at fault."""
        return self._scaler is not None and self._scaler.get_scale() < _SMALLEST_SCALE

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of every forward pass."""
        if self._dtype is None:
            return nullcontext()
        return torch.autocast(self._device_type, dtype=self._dtype)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss, scaled where the format needs it."""
        scaled = loss if self._scaler is None else self._scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Bring the gradients to their true size; once before each `step`."""
        if self._scaler is not None:
            self._scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Update the weights, unless scaled gradients overflowed."""
        if self._scaler is None:
            optimizer.step()
        else:
            self._scaler.step(optimizer)
            self._scaler.update()

    def state_dict(self) -> dict[str, Any]:
        """Return the scale."""
        return {} if self._scaler is None else self._scaler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with a scale."""
        if self._scaler is not None:
            self._scaler.load_state_dict(dict(state))


def keep_fp32(model: nn.Module, names: Iterable[str]) -> None:
    """Let the named layers, and all below them, compute in fp32 whatever the precision.

    Raises:
        BadConfigError: the model has no layer of that name.
    """
    layers = dict(model.named_modules())
    for name in names:
        if name not in layers:
            known = ", ".join(sorted(layer for layer in layers if layer)[:20])
            raise BadConfigError(
                f"fp32_layers names '{name}', which the model does not have; it has {known}"
            )
        layer = layers[name]
        # an attribute of the instance, so that names in checkpoints stay as they are
        layer.forward = _in_fp32(layer.forward)


def _in_fp32(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*inputs: Any) -> Any:
        widened = [
            value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
            for value in inputs
        ]
        with torch.autocast(_device_type(inputs), enabled=False):
            return forward(*widened)

    return run


def _device_type(inputs: Iterable[Any]) -> str:
    return next((value.device.type for value in inputs if isinstance(value, Tensor)), "cpu")
