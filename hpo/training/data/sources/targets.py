"""What an array of labels means, and whether it can be trained on.

Shapes: N images, K classes or target columns.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpo.training.data.source import TargetKind
from hpo.training.origin.origin import BadDataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Labels, checked."""

    values: Tensor
    """int64 (N,) class indices, or float32 (N, K)."""
    kind: TargetKind
    class_labels: tuple[str, ...]
    """Of each class or column."""


def read_targets(labels: Any, class_names: tuple[str, ...] | None, place: str) -> Targets:
    """Return checked targets; their kind follows from type and shape.

    Args:
        labels: an array of N or N K numbers.
        class_names: of each class or column; None names them by number.
        place: where they are from, for messages.

    Raises:
        BadDataError: a label is out of range, a class has no image, or there is one class.
    """
    if labels.ndim == 1 and labels.dtype.kind in "iub":
        return _classes(labels.astype(np.int64), class_names, place)
    rows = labels.reshape(len(labels), -1).astype(np.float32)
    if not np.isfinite(rows).all():
        raise BadDataError(f"names {place}, whose labels hold nan or infinite values")
    num_columns = rows.shape[1]
    names = class_names or tuple(str(column) for column in range(num_columns))
    if len(names) != num_columns:
        raise BadDataError(
            f"names {place}, which has {num_columns} target columns and {len(names)} class_names"
        )
    return Targets(
        values=torch.from_numpy(rows), kind=_kind(labels, rows, place), class_labels=names
    )


def _kind(labels: Any, rows: Any, place: str) -> TargetKind:
    if labels.dtype.kind in "iub":
        if not np.isin(rows, (0, 1)).all():
            raise BadDataError(
                f"names {place}, whose rows of whole numbers are not all 0 or 1; write one class"
                " index an image, or floats for numbers to predict"
            )
        return TargetKind.MULTILABEL
    sums = rows.sum(axis=1)
    if rows.shape[1] > 1 and (rows >= 0).all() and np.allclose(sums, 1, atol=1e-3):
        return TargetKind.SOFT
    return TargetKind.REGRESSION


def _classes(labels_N: Any, class_names: tuple[str, ...] | None, place: str) -> Targets:
    num_classes = len(class_names) if class_names else int(labels_N.max(initial=-1)) + 1
    outside = labels_N[(labels_N < 0) | (labels_N >= num_classes)]
    if len(outside):
        where = int(np.flatnonzero(labels_N == outside[0])[0])
        raise BadDataError(
            f"names {place}, where image {where} has label {outside[0]}, out of range: must be 0"
            f" to {num_classes - 1}" + (", one for each of class_names" if class_names else "")
        )
    counts = np.bincount(labels_N, minlength=num_classes)
    if (counts > 0).sum() < 2:
        raise BadDataError(f"names {place}, which has images of one class; there must be two")
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        raise BadDataError(
            f"names {place}, where class {empty[0]} has no image; number the classes from 0"
            " without gaps"
        )
    return Targets(
        values=torch.from_numpy(labels_N),
        kind=TargetKind.CLASS,
        class_labels=class_names or tuple(str(index) for index in range(num_classes)),
    )
