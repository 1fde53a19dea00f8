"""Original files -> raw pixels and labels. Only this file imports scikit-learn and torchvision.

Shapes: N images, C channels, H height, W width.
"""

import gzip
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hpo.training.catalog import IMAGE_SETS, ImageSet
from hpo.training.config import ClassifierConfig
from hpo.training.task import BadConfigError

# sklearn and torchvision cost seconds to import; a worker whose data is prepared never needs them.
# ruff: noqa: PLC0415


_READ_ERRORS = (RuntimeError, OSError, ValueError, AssertionError, EOFError, zlib.error)
"""What torchvision and gzip raise for files that are missing, cut short or something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawImages:
    """An image set as it came."""

    images_NCHW: Tensor  # noqa: N815  # a shape suffix
    """uint8 raw pixels; its own test images, if any, come last."""
    labels_N: Tensor  # noqa: N815  # a shape suffix
    """int64 class indices."""
    num_own_test: int | None
    """How many of the last images are the set's own test split; None without one."""


def decode(config: ClassifierConfig) -> RawImages:
    """Read an image set from where it lies, or download it when the configuration says so.

    Raises:
        BadConfigError: the files are missing or unreadable; the message says how to get them.
    """
    if config.data == "digits":
        return _decode_digits()
    image_set = IMAGE_SETS[config.data]
    root = Path(config.data_root)
    missing = image_set.missing_files(root)
    if missing and not config.download:
        raise BadConfigError(
            f"data_root is '{root}', which lacks {missing[0].relative_to(root)};"
            f" write download: true, or put the files of {config.data} there"
        )
    try:
        if missing:
            _torchvision_class(config.data)(root, download=True)
        with _unpacked(root, image_set) as folder:
            train = _torchvision_class(config.data)(folder, train=True)
            test = _torchvision_class(config.data)(folder, train=False)
    except _READ_ERRORS as error:
        raise BadConfigError(f"{config.data} cannot be read from '{root}': {error}") from error
    return RawImages(
        images_NCHW=torch.cat([_pixels(train), _pixels(test)]),
        labels_N=torch.cat([_labels(train), _labels(test)]),
        num_own_test=len(test.targets),
    )


def _decode_digits() -> RawImages:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return RawImages(
        images_NCHW=torch.from_numpy(digits.images).to(torch.uint8).unsqueeze(1),
        labels_N=torch.from_numpy(digits.target).to(torch.int64),
        num_own_test=None,
    )


def _torchvision_class(name: str) -> Any:
    from torchvision import datasets

    return {
        "mnist": datasets.MNIST,
        "fashion_mnist": datasets.FashionMNIST,
        "cifar10": datasets.CIFAR10,
    }[name]


@contextmanager
def _unpacked(root: Path, image_set: ImageSet) -> Iterator[Path]:
    """Give a root whose files are all unpacked, as torchvision wants; `root` is not written to."""
    packed = [name for name in image_set.files if not (root / image_set.folder / name).is_file()]
    if not packed:
        yield root
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, image_set.folder)
        folder.mkdir(parents=True)
        for file in image_set.files:
            source = (root / image_set.folder / file).resolve()
            if file not in packed:
                (folder / file).symlink_to(source)
                continue
            with gzip.open(f"{source}.gz") as compressed, (folder / file).open("wb") as plain:
                shutil.copyfileobj(compressed, plain)
        yield Path(name)


def _pixels(images: Any) -> Tensor:
    """Return uint8 images_NCHW of a torchvision set."""
    pixels = torch.as_tensor(images.data)
    return pixels.unsqueeze(1) if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2).contiguous()


def _labels(images: Any) -> Tensor:
    return torch.as_tensor(images.targets, dtype=torch.int64)
