"""Weights from elsewhere: found, read, matched by name, and reported.

A file may be a `state_dict` saved by torch (read without running code from it), one inside of a
training checkpoint, or safetensors, such as the weights of a bundle this project exported.
"""

import hashlib
import pickle
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from hpo.training.models.head import head_name, is_below
from hpo.training.models.torchvision_network import default_weights
from hpo.training.task import BadConfigError

_WRAPPERS: Final = ("state_dict", "model_state_dict", "model", "weights")
"""Under which training programs keep the weights in their checkpoints."""

_PREFIXES: Final = ("module.", "_orig_mod.", "network.", "model.")
"""Of DistributedDataParallel, of torch.compile, of our own classifier, of Lightning."""

_NORMALIZE: Final = "normalize."
"""What our own classifier calls its normalisation."""

_MAX_NAMED: Final = 8
"""Names in one sentence."""

_UNREADABLE: Final = (
    OSError,
    RuntimeError,
    EOFError,
    ValueError,
    pickle.UnpicklingError,
    SafetensorError,
)
"""What reading a file that is something else raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What came of weights from elsewhere."""

    sha256: str
    """Of the file."""
    notes: tuple[str, ...]
    """For the trial's log."""
    normalisation: tuple[Tensor, Tensor] | None
    """`scale` and `shift` where the file brings them."""


def find_weights(name: str) -> Path:
    """Return the file of torchvision's default weights of a model, downloaded if need be.

    Raises:
        BadConfigError: it is neither in torch's cache nor can it be fetched.
    """
    url: str = default_weights(name).url
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    path = folder / url.rpartition("/")[2]
    if not path.is_file():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(url, str(path), _hash_prefix(path), progress=False)
        except (OSError, RuntimeError) as error:
            raise BadConfigError(
                f"pretrained is true, but the weights of {name} are not on this machine and"
                f" cannot be fetched ({error}); put {url} into {folder}, or write pretrained:"
                " and the path of a file"
            ) from error
    return path


def load_weights(network: nn.Module, path: Path) -> Loaded:
    """Copy a file's weights into a network by name; weights of other shapes keep their own values.

    Raises:
        BadConfigError: the file cannot be read, or nothing in it fits.
    """
    own = network.state_dict()
    given = {_own_name(name, own): tensor for name, tensor in _read(path).items()}
    normalisation = None
    if {f"{_NORMALIZE}scale", f"{_NORMALIZE}shift"} <= set(given):
        normalisation = (given.pop(f"{_NORMALIZE}scale"), given.pop(f"{_NORMALIZE}shift"))
    fitting = {
        name: tensor
        for name, tensor in given.items()
        if name in own and own[name].shape == tensor.shape
    }
    if not any(tensor.ndim > 1 for tensor in fitting.values()):
        raise BadConfigError(
            f"pretrained is '{path}', in which no weight fits the model: it holds"
            f" {_some(given)}, the model has {_some(own)}"
        )
    network.load_state_dict(fitting, strict=False)
    return Loaded(
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        notes=_notes(path, network, given, fitting),
        normalisation=normalisation,
    )


def _own_name(name: str, own: Collection[str]) -> str:
    """Return a weight's name without what wrappers have put before it."""
    while name not in own:
        prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
        if prefix is None:
            break
        name = name.removeprefix(prefix)
    return name


def _notes(
    path: Path, network: nn.Module, given: Mapping[str, Tensor], fitting: Mapping[str, Tensor]
) -> tuple[str, ...]:
    """Return what was loaded, what was not and why, one sentence each."""
    own, head = network.state_dict(), head_name(network)
    notes = [f"pretrained: {len(fitting)} of {len(own)} tensors from {path}: {_some(fitting)}"]
    others = {
        name: f"{name} (file {tuple(given[name].shape)}, model {tuple(own[name].shape)})"
        for name in given
        if name in own and name not in fitting
    }
    in_head = [text for name, text in others.items() if is_below(name, head)]
    elsewhere = [text for name, text in others.items() if not is_below(name, head)]
    missing = [name for name in own if name not in given and not _is_counter(name)]
    unknown = [name for name in given if name not in own]
    if in_head:
        notes.append(f"pretrained: the last layer is new, for other classes: {_some(in_head)}")
    if elsewhere:
        notes.append(
            f"warning: pretrained weights of another shape were not loaded: {_some(elsewhere)}"
        )
    if missing:
        notes.append(f"warning: the file lacks weights, which stay new: {_some(missing)}")
    if unknown:
        notes.append(f"pretrained: the model has no place for {_some(unknown)}")
    return tuple(notes)


def _is_counter(name: str) -> bool:
    """Return whether it counts a norm's batches, which older files lack and nothing reads."""
    return name.endswith("num_batches_tracked")


def _some(names: Collection[str]) -> str:
    """Write down names, the first ones of many."""
    shown = ", ".join(list(names)[:_MAX_NAMED])
    more = len(names) - _MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown or "nothing"


def _hash_prefix(path: Path) -> str | None:
    """Return the first digits of the file's sha256, which torch writes at the end of its name."""
    stem, _, digits = path.stem.rpartition("-")
    return digits if stem else None


def _read(path: Path) -> dict[str, Tensor]:
    content: Any
    try:
        if path.suffix == ".safetensors":
            content = safetensors.torch.load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        raise _unreadable(path, str(error)) from error
    for wrapper in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping):
        raise _unreadable(path, f"it holds {type(content).__name__}")
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    if not tensors:
        raise _unreadable(path, "it holds no tensor")
    return tensors


def _unreadable(path: Path, reason: str) -> BadConfigError:
    first_line = (reason.splitlines() or [""])[0]
    return BadConfigError(
        f"pretrained is '{path}', which is no file of weights ({first_line});"
        " save one with torch.save(model.state_dict(), path)"
    )
