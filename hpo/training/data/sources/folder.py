"""A folder of image files. Only this file imports Pillow.

Shapes: C channels, H height, W width.
"""

import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from hpo.training.data.source import TO_DIVIDE, BadImageError, SourceFacts, TargetKind
from hpo.training.origin.folder import FolderListing
from hpo.training.origin.origin import SPLIT_NAMES

_DECODE_ERRORS = (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError)
"""What Pillow raises for files that are cut short, empty, something else, or far too large."""

_GREY_MODES: Final = frozenset({"1", "L", "LA", "La", "I;16", "I", "F"})
"""Pillow's modes without colour."""


class FolderSource:
    """Image files by class folder; fulfils `Source`.

    All images come in one number of channels: grey when every file is, otherwise RGB. A turned
    photograph is turned upright as its EXIF entry says; transparency is dropped.
    """

    def __init__(self, listing: FolderListing) -> None:
        """Look at every file's header for its colours."""
        self._listing = listing
        with ThreadPoolExecutor() as pool:
            modes = set(pool.map(_mode, (listing.root / file for file in listing.files)))
        self._mode = "L" if modes - {None} <= _GREY_MODES else "RGB"
        codes = {"": TO_DIVIDE} | {name: code for code, name in enumerate(SPLIT_NAMES)}
        given_N = torch.tensor([codes[split] for split in listing.splits], dtype=torch.int8)
        self._facts = SourceFacts(
            targets=torch.tensor(listing.labels, dtype=torch.int64),
            target_kind=TargetKind.CLASS,
            class_labels=listing.class_labels,
            given_splits_N=given_N,
            pixel_scale=255.0,
        )

    @property
    def facts(self) -> SourceFacts:
        """Targets, classes and given splits, by index."""
        return self._facts

    def read(self, index: int) -> Tensor:
        """Return uint8 image_CHW.

        Raises:
            BadImageError: the file cannot be decoded.
        """
        try:
            with warnings.catch_warnings(), Image.open(self._path(index)) as image:
                upright = ImageOps.exif_transpose(image)
                pixels = np.array(_grey(upright) if self._mode == "L" else upright.convert("RGB"))
        except _DECODE_ERRORS as error:
            raise BadImageError(_reason(error)) from error
        image_HWC = torch.from_numpy(pixels)
        return image_HWC.unsqueeze(0) if image_HWC.ndim == 2 else image_HWC.permute(2, 0, 1)

    def name(self, index: int) -> str:
        """Return the file's path."""
        return str(self._path(index))

    def _path(self, index: int) -> Path:
        return self._listing.root / self._listing.files[index]


def _mode(path: Path) -> str | None:
    try:
        with Image.open(path) as image:
            return image.mode
    except _DECODE_ERRORS:
        return None  # told when it is read


def _grey(image: Image.Image) -> Image.Image:
    """Return 8 bits a pixel; Pillow would clip 16-bit images rather than scale them."""
    if image.mode.startswith("I"):
        return image.convert("I").point(lambda value: value / 256).convert("L")
    return image.convert("L")


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
