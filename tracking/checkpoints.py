"""Checkpoints: one safetensors file each, whole or not there at all, verified before every load.

A file holds tensors by name and, in its metadata, one JSON object with the format version and
the plain state. Nothing in it can run code.
"""

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol

import safetensors.torch
import torch
from torch import Tensor

from tracking.files import publish_bytes

FORMAT_VERSION: Final = 1
"""Raised when a reader of the old version would misread the new one."""

_SUFFIX: Final = ".safetensors"
_METADATA_KEY: Final = "checkpoint"
"""One key only: safetensors writes several in no order, and equal content must be equal bytes."""


class CheckpointDamagedError(Exception):
    """A checkpoint is missing, or its bytes are not those that were published."""


class CheckpointUriError(ValueError):
    """A URI does not name a checkpoint below the store's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """A checkpoint that is whole and on disk."""

    uri: str
    """Where it is, relative to the store's root, with forward slashes."""
    sha256: str
    """Of the whole file."""
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What was put into a checkpoint."""

    tensors: Mapping[str, Tensor]
    """On the CPU, by name."""
    state: Mapping[str, Any]
    """Plain JSON."""


class CheckpointStore(Protocol):
    """Keeps checkpoints.

    1. When `put` returns, the checkpoint is durable; when it is interrupted, nothing is visible.
    2. A checkpoint is never changed: equal content gets the same URI, other content another.
    3. `open` returns exactly what was put, or raises; damage never passes.
    4. No URI reaches outside the store's root.
    """

    def put(
        self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any]
    ) -> StoredCheckpoint:
        """Store tensors and plain state under a URI that begins with `name`."""
        ...

    def open(self, uri: str, sha256: str) -> Checkpoint:
        """Return the checkpoint whose file has this hash.

        Raises:
            CheckpointDamagedError: it is missing, or its bytes are not those that were published.
            CheckpointUriError: the URI leaves the root.
        """
        ...

    def list(self) -> list[str]:
        """Return the URIs of the whole checkpoints that `put` wrote, sorted."""
        ...

    def delete(self, uri: str) -> None:
        """Remove a checkpoint; one that is not there is no error."""
        ...


class FileCheckpointStore:
    """A folder of checkpoint files below a root; fulfils `CheckpointStore`.

    File names end in the first digits of their hash, so that a checkpoint of another try never
    replaces one that is on record.
    """

    def __init__(self, root: Path, folder: str = "") -> None:
        """Look at a folder, which need not exist yet.

        Args:
            root: what URIs are relative to.
            folder: where below it `put` writes and `list` looks, with forward slashes.
        """
        self._root = root
        self._folder = PurePosixPath(folder)
        self._path_below_root(self._folder)

    def put(
        self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any]
    ) -> StoredCheckpoint:
        """Store tensors and plain state under a URI that begins with `name`."""
        plain = {"format_version": FORMAT_VERSION, "state": state}
        data = safetensors.torch.save(
            {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()},
            {_METADATA_KEY: json.dumps(plain, sort_keys=True, allow_nan=False)},
        )
        sha256 = hashlib.sha256(data).hexdigest()
        uri = str(self._folder / f"{name}-{sha256[:8]}{_SUFFIX}")
        publish_bytes(self._path(uri), data)
        return StoredCheckpoint(uri=uri, sha256=sha256, num_bytes=len(data))

    def open(self, uri: str, sha256: str) -> Checkpoint:
        """Return the checkpoint whose file has this hash; see `CheckpointStore.open`."""
        path = self._path(uri)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise CheckpointDamagedError(
                f"checkpoint {uri} is missing below {self._root}"
            ) from error
        found = hashlib.sha256(data).hexdigest()
        if found != sha256:
            raise CheckpointDamagedError(
                f"checkpoint {uri} is damaged: its sha256 is {found[:12]}..., on record is"
                f" {sha256[:12]}...; go on from an older checkpoint"
            )
        return _parse(uri, data)

    def list(self) -> list[str]:
        """Return the URIs of the whole checkpoints that `put` wrote, sorted."""
        folder = self._path_below_root(self._folder)
        return sorted(str(self._folder / path.name) for path in folder.glob(f"[!.]*{_SUFFIX}"))

    def delete(self, uri: str) -> None:
        """Remove a checkpoint; one that is not there is no error."""
        self._path(uri).unlink(missing_ok=True)

    def _path(self, uri: str) -> Path:
        if not uri.endswith(_SUFFIX):
            raise CheckpointUriError(f"'{uri}' is no checkpoint; its name must end in {_SUFFIX}")
        return self._path_below_root(PurePosixPath(uri))

    def _path_below_root(self, relative: PurePosixPath) -> Path:
        if relative.is_absolute() or ".." in relative.parts or "\\" in str(relative):
            raise CheckpointUriError(f"'{relative}' leaves the folder of checkpoints {self._root}")
        path = self._root
        for part in relative.parts:
            path = path / part
            if path.is_symlink():
                raise CheckpointUriError(f"'{relative}' leads through the link {path}")
        return path


def _parse(uri: str, data: bytes) -> Checkpoint:
    """Read the bytes of a checkpoint, which are known to be those that were published."""
    try:
        (num_header_bytes,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + num_header_bytes])
        plain = json.loads(header["__metadata__"][_METADATA_KEY])
        if plain["format_version"] != FORMAT_VERSION:
            raise CheckpointDamagedError(
                f"checkpoint {uri} has format {plain['format_version']}, this version reads"
                f" {FORMAT_VERSION}; use the version that wrote it"
            )
        tensors = safetensors.torch.load(data)
    except (struct.error, ValueError, KeyError, safetensors.SafetensorError) as error:
        raise CheckpointDamagedError(f"{uri} is no checkpoint: {error}") from error
    return Checkpoint(tensors=tensors, state=plain["state"])


def weights_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the sha256 over sorted names, types, shapes and values, whatever the layout."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
