"""Small image sets made for tests."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from hpo.domain.search_space import Params, Value
from hpo.training.config import CLASSIFIER_SCHEMA

PixelsOf = Callable[[int, int], Any]
"""Returns the pixels of a class's image: H W or H W 3, uint8."""


def config(**changes: Value) -> Params:
    """Return a full configuration; `loader__workers` is `loader.workers`."""
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return CLASSIFIER_SCHEMA.complete({"data": "digits", "batch_size": 4, **named})


def flat(label: int, index: int) -> Any:
    """Return an image whose every pixel tells its class and number."""
    return np.full((6, 8), 50 * label + index, np.uint8)


def write_folder(
    root: Path, counts: Mapping[str, int], pixels: PixelsOf = flat, suffix: str = ".png"
) -> Path:
    """Write class folders; classes are numbered in sorted order.

    Args:
        root: created.
        counts: images by class folder; `train/cat` makes a split.
        pixels: of an image, by class index and number.
        suffix: of the files.
    """
    names = sorted({Path(name).name for name in counts})
    for name, count in counts.items():
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for index in range(count):
            image = Image.fromarray(pixels(names.index(Path(name).name), index))
            image.save(folder / f"{index:03}{suffix}")
    return root


def write_arrays(path: Path, **arrays: Any) -> Path:
    """Write an `.npz` file."""
    np.savez(path, **arrays)
    return path
