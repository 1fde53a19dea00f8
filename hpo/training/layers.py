"""Watching the layers of a model as data goes through them: shapes, and the first bad number."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

Shape = tuple[int, ...]


class NonFiniteLayerError(Exception):
    """A layer gave a number that is not finite; the message names the first one that did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCall:
    """One layer that data went into."""

    name: str
    """Within the model, such as `network.head`; empty for the model itself."""
    kind: str
    """The class of the layer, with its sizes where it has a short text."""
    inputs: tuple[Shape, ...]
    output: Shape | None = None
    """None when it did not return."""

    def __str__(self) -> str:
        shown = " and ".join(_shape_text(shape) for shape in self.inputs) or "nothing"
        into = f"{self.name or 'the model'} {self.kind}: {shown}"
        return f"{into} -> {_shape_text(self.output)}" if self.output else f"{into} -> fails"


@dataclass(slots=True)
class LayerTrace:
    """What happened in one forward pass, in order."""

    done: list[LayerCall] = field(default_factory=list)
    """Layers without parts of their own that returned."""
    running: list[LayerCall] = field(default_factory=list)
    """Layers that were entered and not left, the outermost first."""

    @property
    def failed(self) -> LayerCall | None:
        """The innermost layer that did not return; None when all did."""
        return self.running[-1] if self.running else None

    def table(self, num_last: int = 12) -> list[str]:
        """Return a line for each of the last layers, the failed one at the end."""
        calls = [*self.done[-num_last:], *([self.failed] if self.failed else [])]
        return [str(call) for call in calls]


@contextlib.contextmanager
def tracing(model: nn.Module) -> Iterator[LayerTrace]:
    """Write down which layers data goes through, for as long as the context lasts."""
    trace = LayerTrace()
    names = {id(module): name for name, module in model.named_modules()}

    def enter(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        call = LayerCall(
            name=names.get(id(module), ""), kind=_kind(module), inputs=_shapes(arguments)
        )
        trace.running.append(call)

    def leave(module: nn.Module, _arguments: tuple[Any, ...], output: Any) -> None:
        entered = trace.running.pop()
        if next(module.children(), None) is None:
            shapes = _shapes((output,))
            trace.done.append(
                LayerCall(
                    name=entered.name,
                    kind=entered.kind,
                    inputs=entered.inputs,
                    output=shapes[0] if shapes else (),
                )
            )

    handles = []
    for module in model.modules():
        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave))
    try:
        yield trace
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def refusing_non_finite() -> Iterator[None]:
    """Stop at the first layer, of any model of this process, that gives a NaN or an infinity.

    Layers are named within the model that was called first. Each layer's output is read back, so
    this is for looking at one trial, not for training many.

    Raises:
        NonFiniteLayerError: within the context, where a layer's output is not finite.
    """
    names: dict[int, str] = {}
    depth = 0

    def enter(module: nn.Module, _arguments: tuple[Any, ...]) -> None:
        nonlocal depth
        if depth == 0:
            names.clear()
            names.update({id(part): name for name, part in module.named_modules()})
        depth += 1

    def leave(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        nonlocal depth
        depth -= 1
        bad = _bad_number(output)
        if bad is None:
            return
        depth = 0
        name = names.get(id(module)) or "the model"
        raise NonFiniteLayerError(
            f"{name} ({_kind(module)}) gave {bad}{_cause(module, arguments)}"
        )

    handles = [
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _cause(module: nn.Module, arguments: tuple[Any, ...]) -> str:
    for name, weight in module.named_parameters(recurse=False):
        if _bad_number(weight) is not None:
            return f": its {name} holds {_bad_number(weight)}"
    largest = max((float(a.abs().max()) for a in _tensors(arguments) if a.numel()), default=0.0)
    return f" from finite weights and inputs up to {largest:.3g}"


def _bad_number(value: Any) -> str | None:
    for tensor in _tensors((value,)):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            return "NaN" if bool(tensor.isnan().any()) else "infinity"
    return None


def _tensors(values: tuple[Any, ...]) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value.detach())
        elif isinstance(value, tuple | list):
            found += _tensors(tuple(value))
        elif isinstance(value, dict):
            found += _tensors(tuple(value.values()))
    return found


def _shapes(values: tuple[Any, ...]) -> tuple[Shape, ...]:
    return tuple(tuple(tensor.shape) for tensor in _tensors(values))


def _shape_text(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "a number"


def _kind(module: nn.Module) -> str:
    name, sizes = type(module).__name__, module.extra_repr()
    return f"{name}({sizes})" if sizes and len(sizes) <= 70 else name
