"""Decoded images on disk: a safetensors file that is written image by image and read by index.

The file is mapped into memory, so that one image costs one read, and every process shares what
the machine has in memory already. Beside it lies a small JSON file with everything else.

Format: https://huggingface.co/docs/safetensors/index#format

Shapes: N images, K target columns, C channels, H height, W width.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import torch
from torch import Tensor

from hpo.training.data.source import BadImageError, Source, TargetKind
from hpo.training.data.transform import Prescale
from hpo.training.origin.origin import BadDataError
from tracking.files import publish_bytes

_NAMES: Final = {torch.uint8: "U8", torch.float32: "F32", torch.int64: "I64", torch.int8: "I8"}
_NUMPY: Final = {"U8": np.uint8, "F32": np.float32, "I64": np.int64, "I8": np.int8}
_ALIGNMENT: Final = 64
"""Bytes; where the data begins, so that mapped numbers are aligned."""
_CHUNK: Final = 256
"""Images decoded before they are written; bounds memory."""


class DataDamagedError(Exception):
    """A cache file is not what was prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadImage:
    """An image that cannot be decoded."""

    index: int
    name: str
    """Its path, or its place in the set."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """Everything of a decoded set but its pixels and targets."""

    target_kind: str
    class_labels: tuple[str, ...]
    pixel_scale: float
    bad_images: tuple[BadImage, ...]
    """Their pixels are black; they belong to no split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A decoded set."""

    images_NCHW: Tensor  # noqa: N815  # a shape suffix
    """uint8 or float32, mapped: reading it reads the file. Never write to it."""
    targets: Tensor
    """int64 (N,) or float32 (N, K)."""
    given_splits_N: Tensor  # noqa: N815  # a shape suffix
    """int8, codes of `hpo.training.data.source`."""
    facts: StoreFacts


def facts_path(path: Path) -> Path:
    """Return the JSON file beside a store; it is written last."""
    return path.with_suffix(".json")


def write_store(path: Path, source: Source, image_size: int) -> None:
    """Decode every image once and keep the result.

    Raises:
        BadDataError: images differ in size or channels, none can be decoded, or the disk is full.
    """
    facts = source.facts
    transform = Prescale(image_size)
    first = _first_image(source, transform)
    num_images = len(facts.targets)
    shape = (num_images, *first.shape)
    num_bytes = num_images * first.numel() * first.element_size()
    _check_disk(path.parent, num_bytes)
    # Types of more bytes come first, so that each begins where its numbers are aligned.
    small = {"labels": facts.targets, "split": facts.given_splits_N}
    layout = {name: (_NAMES[tensor.dtype], tuple(tensor.shape)) for name, tensor in small.items()}
    bad: list[BadImage] = []
    with _published(path) as file:
        ordered = ["labels", "images", "split"]
        layout["images"] = (_NAMES[first.dtype], shape)
        file.write(_header({name: layout[name] for name in ordered}))
        file.write(facts.targets.numpy().tobytes())
        for chunk in _decoded(source, transform, first, bad):
            file.write(chunk.numpy().tobytes())
        file.write(facts.given_splits_N.numpy().tobytes())
    kept = StoreFacts(
        target_kind=facts.target_kind.value,
        class_labels=facts.class_labels,
        pixel_scale=facts.pixel_scale,
        bad_images=tuple(bad),
    )
    publish_bytes(facts_path(path), json.dumps(asdict(kept)).encode())


def open_store(path: Path) -> Store:
    """Map a decoded set.

    Raises:
        DataDamagedError: its files cannot be read.
    """
    try:
        tensors = _mapped(path)
        facts = read_facts(path)
        return Store(
            images_NCHW=tensors["images"],
            targets=tensors["labels"],
            given_splits_N=tensors["split"],
            facts=facts,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataDamagedError(f"{path} cannot be read ({error}); delete it") from error


class StoreReader:
    """Reads one image by its index; a copy in another process maps the file itself."""

    def __init__(self, path: Path) -> None:
        """Remember the path of a store; it is mapped at the first read."""
        self._path = path
        self._images_NCHW: Tensor | None = None

    def __call__(self, index: int) -> Tensor:
        """Return image_CHW, mapped."""
        if self._images_NCHW is None:
            self._images_NCHW = open_store(self._path).images_NCHW
        return self._images_NCHW[index]

    def __getstate__(self) -> Path:
        return self._path

    def __setstate__(self, path: Path) -> None:
        self._path = path
        self._images_NCHW = None


def read_facts(path: Path) -> StoreFacts:
    """Return what lies beside a store.

    Raises:
        DataDamagedError: it cannot be read.
    """
    try:
        fields: dict[str, Any] = json.loads(facts_path(path).read_text())
        return StoreFacts(
            target_kind=TargetKind(fields["target_kind"]).value,
            class_labels=tuple(fields["class_labels"]),
            pixel_scale=fields["pixel_scale"],
            bad_images=tuple(BadImage(**bad) for bad in fields["bad_images"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataDamagedError(
            f"{facts_path(path)} cannot be read ({error}); delete it"
        ) from error


def _first_image(source: Source, transform: Prescale) -> Tensor:
    """Return the first image that can be decoded: it decides shape and type of all."""
    reason = "there is none"
    for index in range(len(source.facts.targets)):
        try:
            return transform(source.read(index))
        except BadImageError as error:
            reason = f"{source.name(index)}: {error}"
    raise BadDataError(f"names data of which no image can be decoded; {reason}")


def _decoded(
    source: Source, transform: Prescale, first: Tensor, bad: list[BadImage]
) -> Iterator[Tensor]:
    """Yield images in order, some at a time; what cannot be decoded is black and told in `bad`."""

    def read(index: int) -> Tensor | BadImage:
        try:
            return transform(source.read(index))
        except BadImageError as error:
            return BadImage(index=index, name=source.name(index), reason=str(error))

    num_images = len(source.facts.targets)
    with ThreadPoolExecutor() as pool:
        for start in range(0, num_images, _CHUNK):
            rows: list[Tensor] = []
            for index, image in enumerate(
                pool.map(read, range(start, min(start + _CHUNK, num_images))), start
            ):
                if isinstance(image, BadImage):
                    bad.append(image)
                    rows.append(torch.zeros_like(first))
                    continue
                if image.shape != first.shape or image.dtype != first.dtype:
                    raise BadDataError(_difference(source.name(index), image, first))
                rows.append(image)
            yield torch.stack(rows)


def _difference(name: str, image: Tensor, first: Tensor) -> str:
    def shown(tensor: Tensor) -> str:
        return f"{' x '.join(str(side) for side in tensor.shape)} {tensor.dtype}".replace(
            "torch.", ""
        )

    remedy = (
        "convert them to one number of channels and one type"
        if image.shape[1:] == first.shape[1:]
        else "write image_size: 64, or another side in pixels, to scale them all"
    )
    return (
        f"names images that differ: {name} is {shown(image)}, the first {shown(first)}; {remedy}"
    )


def _check_disk(folder: Path, num_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if num_bytes > free:
        raise BadDataError(
            f"names images that take {num_bytes / 1e9:.1f} GB decoded, but {free / 1e9:.1f} GB are"
            f" free in {folder}; write a smaller image_size, or name another --home"
        )


@contextmanager
def _published(path: Path) -> Iterator[IO[bytes]]:
    """Give a file that takes the name `path` when all went well, and is removed otherwise."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _header(layout: dict[str, tuple[str, tuple[int, ...]]]) -> bytes:
    entries: dict[str, Any] = {}
    end = 0
    for name, (kind, shape) in layout.items():
        start = end
        end += int(np.prod(shape)) * np.dtype(_NUMPY[kind]).itemsize
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(entries).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _mapped(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entries: dict[str, Any] = json.loads(file.read(length))
    tensors: dict[str, Tensor] = {}
    for name, entry in entries.items():
        array = np.memmap(
            path,
            _NUMPY[entry["dtype"]],
            mode="c",  # torch wants memory that may be written; what is written stays private
            offset=8 + length + entry["data_offsets"][0],
            shape=tuple(entry["shape"]),
        )
        tensors[name] = torch.from_numpy(array)
    return tensors
