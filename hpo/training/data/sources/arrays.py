"""Images and targets in an `.npz` file of NumPy arrays.

| array | shape | meaning |
|---|---|---|
| `images` | N H W, N C H W or N H W C | uint8, or floats that are taken as they are |
| `labels` | N | whole numbers: class indices from 0; floats: numbers to predict |
| `labels` | N K | 0 and 1: any number of labels an image; rows of probabilities; or numbers |
| `class_names` | K | optional: text for each class or column |
| `split` | N | optional: 0 or `train`, 1 or `val`, 2 or `test`, -1 or empty text: to divide |
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpo.training.data.source import SourceFacts, all_to_divide
from hpo.training.data.sources.targets import read_targets
from hpo.training.data.sources.tensors import TensorSource
from hpo.training.origin.arrays import arrays_facts
from hpo.training.origin.origin import SPLIT_NAMES, BadDataError


def open_arrays(path: Path) -> TensorSource:
    """Read an `.npz` file.

    Raises:
        BadDataError: what it holds cannot be trained on.
    """
    header = arrays_facts(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError) as error:
        raise BadDataError(f"names {path}, which cannot be read: {error}") from error
    pixels = arrays["images"]
    is_bytes = pixels.dtype == np.uint8
    images = torch.from_numpy(pixels if is_bytes else pixels.astype(np.float32))
    if images.ndim == 3:
        images = images.unsqueeze(1)
    elif header.is_channels_last:
        images = images.permute(0, 3, 1, 2)
    if not is_bytes and not bool(images.isfinite().all()):
        raise BadDataError(f"names {path}, whose images hold nan or infinite values")
    names = tuple(str(name) for name in arrays["class_names"]) if "class_names" in arrays else None
    targets = read_targets(arrays["labels"], names, str(path))
    return TensorSource(
        images.contiguous(),
        SourceFacts(
            targets=targets.values,
            target_kind=targets.kind,
            class_labels=targets.class_labels,
            given_splits_N=_splits(arrays.get("split"), header.num_images, path),
            pixel_scale=255.0 if is_bytes else 1.0,
        ),
    )


def _splits(split: Any, num_images: int, path: Path) -> Tensor:
    if split is None:
        return all_to_divide(num_images)
    codes = {name: code for code, name in enumerate(SPLIT_NAMES)} | {"": -1}
    known = {*codes, *(str(code) for code in codes.values())}
    entries = [str(entry) for entry in split.tolist()]
    unknown = sorted(set(entries) - known)
    if unknown:
        raise BadDataError(
            f"names {path}, whose array split holds {unknown[0]}; must be train, val, test"
            " or 0, 1, 2; -1 to divide"
        )
    return torch.tensor(
        [codes[entry] if entry in codes else int(entry) for entry in entries], dtype=torch.int8
    )
