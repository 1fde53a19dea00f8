"""What a checkpoint holds: every part of a training that has a state, by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor


class Stateful(Protocol):
    """A part with a state.

    1. `state_dict` returns dictionaries, lists, tensors and JSON scalars.
    2. After `load_state_dict` of what it returned, the part behaves as it did then.
    """

    def state_dict(self) -> Mapping[Any, Any]:
        """Return where the part stands."""
        ...

    def load_state_dict(self, state: Any) -> object:
        """Put the part where `state_dict` found it."""
        ...


class TrainState:
    """The registry of parts: what is registered here is resumed, and nothing else.

    Tensors are named by their path, such as `model/network.head.weight`; the rest is plain JSON.
    """

    def __init__(self) -> None:
        self._parts: dict[str, Stateful] = {}

    def register(self, name: str, part: Stateful) -> None:
        """Make `part` a part of every checkpoint.

        Raises:
            ValueError: the name is taken.
        """
        if name in self._parts:
            raise ValueError(f"two parts are named '{name}'; give each its own name")
        self._parts[name] = part

    @property
    def names(self) -> tuple[str, ...]:
        """The registered parts."""
        return tuple(self._parts)

    def capture(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return every part's tensors by path, and the rest as plain JSON."""
        tensors: dict[str, Tensor] = {}
        plain = {
            name: _pack(part.state_dict(), name, tensors) for name, part in self._parts.items()
        }
        return tensors, plain

    def restore(self, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
        """Restore every part from what `capture` returned.

        Raises:
            ValueError: it was captured from other parts.
        """
        if set(plain) != set(self._parts):
            raise ValueError(
                f"the checkpoint holds {', '.join(sorted(plain))},"
                f" this training has {', '.join(sorted(self._parts))}"
            )
        for name, part in self._parts.items():
            part.load_state_dict(_unpack(plain[name], tensors))


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a training is. Counts whole epochs."""

    epoch: int = 0
    """Epochs done."""
    step: int = 0
    """Updates done; the schedule's argument."""
    examples_seen: int = 0
    """Training examples seen, repeats counted."""

    def state_dict(self) -> dict[str, int]:
        """Return the counts."""
        return {"epoch": self.epoch, "step": self.step, "examples_seen": self.examples_seen}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from the counts."""
        self.epoch = state["epoch"]
        self.step = state["step"]
        self.examples_seen = state["examples_seen"]


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Move the tensors of a tree to `tensors`; what is left is JSON that `_unpack` reads.

    Each container becomes an object of one key that names its type. Dictionaries become lists of
    pairs, because JSON would turn number keys, which optimizers use, into text.
    """
    if isinstance(value, Tensor):
        tensors[path] = value
        return {"tensor": path}
    if isinstance(value, Mapping):
        pairs = [[key, _pack(item, f"{path}/{key}", tensors)] for key, item in value.items()]
        return {"dict": pairs}
    if isinstance(value, list | tuple):
        items = [_pack(item, f"{path}/{index}", tensors) for index, item in enumerate(value)]
        return {"list": items}
    return value


def _unpack(packed: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(packed, Mapping):
        return packed
    ((kind, content),) = packed.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _unpack(item, tensors) for key, item in content}
    return [_unpack(item, tensors) for item in content]
