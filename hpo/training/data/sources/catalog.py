"""Image sets known by name. Only this file imports scikit-learn's sets and torchvision's.

Shapes: N images, C channels, H height, W width.
"""

import gzip
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hpo.training.catalog import IMAGE_SETS, ImageSet
from hpo.training.config import ClassifierConfig
from hpo.training.data.source import TEST, SourceFacts, TargetKind, all_to_divide
from hpo.training.data.sources.tensors import TensorSource
from hpo.training.task import BadConfigError

# sklearn and torchvision cost seconds to import; a worker whose data is prepared never needs them.
# ruff: noqa: PLC0415


_READ_ERRORS = (RuntimeError, OSError, ValueError, AssertionError, EOFError, zlib.error)
"""What torchvision and gzip raise for files that are missing, cut short or something else."""


def open_catalog(config: ClassifierConfig) -> TensorSource:
    """Read an image set from where it lies, or download it when the configuration says so.

    Raises:
        BadConfigError: the files are missing or unreadable; the message says how to get them.
    """
    if config.data == "digits":
        return _digits()
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
            _open_torchvision(config.data, root, is_train=True, download=True)
            _open_torchvision(config.data, root, is_train=False, download=True)
        with _unpacked(root, image_set) as folder:
            train = _open_torchvision(config.data, folder, is_train=True)
            test = _open_torchvision(config.data, folder, is_train=False)
    except _READ_ERRORS as error:
        raise BadConfigError(f"{config.data} cannot be read from '{root}': {error}") from error
    labels_N = torch.cat([_labels(train), _labels(test)])
    return _source(image_set, torch.cat([_pixels(train), _pixels(test)]), labels_N, len(test))


def _digits() -> TensorSource:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images_NCHW = torch.from_numpy(digits.images).to(torch.uint8).unsqueeze(1)
    labels_N = torch.from_numpy(digits.target).to(torch.int64)
    return _source(IMAGE_SETS["digits"], images_NCHW, labels_N, 0)


def _source(
    image_set: ImageSet, images_NCHW: Tensor, labels_N: Tensor, num_own_test: int
) -> TensorSource:
    given_N = all_to_divide(len(labels_N))
    given_N[len(labels_N) - num_own_test :] = TEST
    return TensorSource(
        images_NCHW,
        SourceFacts(
            targets=labels_N,
            target_kind=TargetKind.CLASS,
            class_labels=image_set.class_labels,
            given_splits_N=given_N,
            pixel_scale=image_set.pixel_scale,
        ),
    )


def _open_torchvision(name: str, root: Path, *, is_train: bool, download: bool = False) -> Any:
    from torchvision import datasets

    if name == "svhn":
        return datasets.SVHN(root, split="train" if is_train else "test", download=download)
    kind = {
        "mnist": datasets.MNIST,
        "fashion_mnist": datasets.FashionMNIST,
        "cifar10": datasets.CIFAR10,
        "cifar100": datasets.CIFAR100,
    }[name]
    return kind(root, train=is_train, download=download)


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
    if pixels.ndim == 3:
        return pixels.unsqueeze(1)
    is_channels_last = pixels.shape[-1] == 3  # SVHN has them first
    return (pixels.permute(0, 3, 1, 2) if is_channels_last else pixels).contiguous()


def _labels(images: Any) -> Tensor:
    labels = images.targets if hasattr(images, "targets") else images.labels
    return torch.as_tensor(labels, dtype=torch.int64)
