"""The shapes and types in an `.npz` file, read without NumPy and without its data.

Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import ast
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hpo.training.origin.origin import BadDataError

_MAGIC: Final = b"\x93NUMPY"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayHeader:
    """What an array is, without its values."""

    kind: str
    """NumPy's letter: `u` and `i` whole numbers, `f` numbers, `b` true or false, `U` text."""
    item_bytes: int
    """Of one value; for text, the most letters."""
    shape: tuple[int, ...]


def read_headers(path: Path) -> Mapping[str, ArrayHeader]:
    """Return the header of each array in an `.npz` file, by name.

    Raises:
        BadDataError: there is no such file, or it is something else.
    """
    if not path.is_file():
        raise BadDataError(f"names {path}, which is no file here; write the path of an .npz file")
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                name.removesuffix(".npy"): _read_header(archive, name)
                for name in archive.namelist()
            }
    except (zipfile.BadZipFile, OSError, ValueError, SyntaxError, KeyError, IndexError) as error:
        raise BadDataError(
            f"names {path}, which is no .npz file ({error}); write one with numpy.savez"
        ) from error


def _read_header(archive: zipfile.ZipFile, name: str) -> ArrayHeader:
    with archive.open(name) as file:
        start = file.read(8)
        if start[:6] != _MAGIC:
            raise ValueError(f"{name} is no array")
        length = int.from_bytes(file.read(2 if start[6] == 1 else 4), "little")
        header: dict[str, Any] = ast.literal_eval(file.read(length).decode("latin1"))
    kind = header["descr"]
    if not isinstance(kind, str) or kind[1] not in "biufU":
        raise ValueError(f"{name} holds {kind}, must be numbers or text")
    return ArrayHeader(kind=kind[1], item_bytes=int(kind[2:]), shape=tuple(header["shape"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraysFacts:
    """What the header of an `.npz` file tells of an image set."""

    num_images: int
    image_shape: tuple[int, int, int]
    """Channels, height, width."""
    is_channels_last: bool
    """Whether `images` is NHWC, as Keras and Pillow lay images out."""
    target_shape: tuple[int, ...]
    """Of one image's target: empty for a class index or a number."""
    has_splits: bool


def arrays_facts(path: Path) -> ArraysFacts:
    """Return what is known of an `.npz` file of `images` and `labels` from its header.

    Raises:
        BadDataError: an array is missing, or has a shape or type that is no image or label.
    """
    headers = read_headers(path)
    for name in ("images", "labels"):
        if name not in headers:
            known = ", ".join(sorted(headers)) or "nothing"
            raise BadDataError(f"names {path}, which holds {known} and lacks the array {name}")
    images, labels = headers["images"], headers["labels"]
    is_uint8 = (images.kind, images.item_bytes) == ("u", 1)
    if not (is_uint8 or images.kind == "f"):
        raise BadDataError(
            f"names {path}, whose images are no uint8 and no floats; save images.astype('uint8')"
        )
    image_shape, is_channels_last = _image_shape(path, images.shape)
    num_images = images.shape[0]
    if labels.kind == "U" or len(labels.shape) not in (1, 2):
        raise BadDataError(
            f"names {path}, whose labels have shape {labels.shape}; must be one class index or"
            " number an image, or one row an image"
        )
    for name in ("labels", "split"):
        if name in headers and headers[name].shape[:1] != (num_images,):
            raise BadDataError(
                f"names {path}, which has {num_images} images and"
                f" {(headers[name].shape or (1,))[0]} entries in {name}; must be one an image"
            )
    return ArraysFacts(
        num_images=num_images,
        image_shape=image_shape,
        is_channels_last=is_channels_last,
        target_shape=labels.shape[1:],
        has_splits="split" in headers,
    )


def _image_shape(path: Path, shape: tuple[int, ...]) -> tuple[tuple[int, int, int], bool]:
    """Return channels, height and width, and whether channels come last."""
    if len(shape) == 3:
        return (1, shape[1], shape[2]), False
    if len(shape) == 4 and shape[1] in (1, 3):
        return (shape[1], shape[2], shape[3]), False
    if len(shape) == 4 and shape[3] in (1, 3):
        return (shape[3], shape[1], shape[2]), True
    raise BadDataError(
        f"names {path}, whose images have shape {shape}; must be N x H x W, N x C x H x W or"
        " N x H x W x C with 1 or 3 channels"
    )
