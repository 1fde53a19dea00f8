"""Labels that two simple models, which never saw them, would not have given.

Source: Northcutt, Jiang, Chuang: Confident Learning, JAIR 70 (2021), section 3: a label is in
    doubt where the predicted probability of another class reaches what that class's own images
    reach on average.
Differs: the probabilities are the mean of a cross-validated logistic regression and a vote of the
    ten nearest images. The other class must be ahead of the label by `MARGIN` of that average
    rather than reach it. Of 30 labels planted among 1797 digits that finds 27, with 5 others
    beside them; the original rule finds 20, with 1 other.

Shapes: N images, K classes, D numbers an image.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hpo.training.data.inspection.features import features, nearest
from hpo.training.data.source import TO_DIVIDE
from hpo.training.data.split import divide

# sklearn costs a second to import; only this look at the data needs it.
# ruff: noqa: PLC0415

MOST_CHECKED: Final = 10_000
"""Images; a larger set is sampled with the same share of every class. Some 20 s on one core."""

FOLDS: Final = 5

NEIGHBOURS: Final = 10

MARGIN: Final = 0.7
"""By how much the other class is ahead of the label, as a share of what its own images reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A label that is likely wrong."""

    index: int
    """In the whole set."""
    label: int
    suggested: int
    """The class that the models prefer."""
    confidence: float
    """Of the suggested class, 0 to 1."""
    margin: float
    """By how much the suggested class is ahead of the label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCheck:
    """What was found among the labels."""

    num_checked: int
    accuracy: float
    """Share of labels that the two models together predict; where it is low, doubt the doubts."""
    doubts: tuple[Doubt, ...]
    """The most certain first."""


def doubtful_labels(images_NCHW: Tensor, labels_N: Tensor, indices_N: Tensor) -> LabelCheck:
    """Check labels by models that were not fitted to them.

    Args:
        images_NCHW: of the whole set.
        labels_N: int64 class indices, of the whole set.
        indices_N: int64, the images to check.
    """
    indices_N = _sampled(labels_N, indices_N)
    given_N = labels_N[indices_N]
    known = given_N.bincount()
    kept = known[given_N] >= FOLDS  # a class with fewer images is not in every fold
    indices_N, given_N = indices_N[kept], given_N[kept]
    classes, dense_N = torch.unique(given_N, return_inverse=True)
    if len(classes) < 2:
        return LabelCheck(num_checked=0, accuracy=0.0, doubts=())
    rows_ND = features(images_NCHW, indices_N.tolist())
    mean_NK = (_votes(rows_ND, dense_N, len(classes)) + _logistic(rows_ND, dense_N)) / 2
    found = [
        Doubt(
            index=int(indices_N[row]),
            label=int(given_N[row]),
            suggested=int(classes[other]),
            confidence=float(mean_NK[row, other]),
            margin=float(mean_NK[row, other] - mean_NK[row, dense_N[row]]),
        )
        for row, other in _in_doubt(mean_NK, dense_N)
    ]
    return LabelCheck(
        num_checked=len(indices_N),
        accuracy=float((mean_NK.argmax(dim=1) == dense_N).double().mean()),
        doubts=tuple(sorted(found, key=lambda doubt: -doubt.margin)),
    )


def _in_doubt(mean_NK: Tensor, labels_N: Tensor) -> list[tuple[int, int]]:
    """Return the rows whose label is in doubt, each with the class that is preferred."""
    own_N = mean_NK.gather(1, labels_N.unsqueeze(1)).squeeze(1)
    num_classes = mean_NK.shape[1]
    usual_K = torch.stack([own_N[labels_N == label].mean() for label in range(num_classes)])
    highest_N, best = mean_NK.max(dim=1)
    is_ahead = highest_N - own_N >= MARGIN * usual_K[best]
    rows = (is_ahead & (best != labels_N)).nonzero().flatten()
    return [(int(row), int(best[row])) for row in rows]


def _sampled(labels_N: Tensor, indices_N: Tensor) -> Tensor:
    if len(indices_N) <= MOST_CHECKED:
        return indices_N
    given_N = torch.full((len(indices_N),), TO_DIVIDE)
    share = MOST_CHECKED / len(indices_N)
    return indices_N[divide(labels_N[indices_N], given_N, (share, 0.0), 0)["val"]]


def _votes(rows_ND: Tensor, labels_N: Tensor, num_classes: int) -> Tensor:
    """Return the share of each class among the nearest other images."""
    count = min(NEIGHBOURS, len(rows_ND) - 1)
    _, places = nearest(rows_ND, rows_ND, count, is_same=True)
    return functional.one_hot(labels_N[places], num_classes).double().mean(dim=1)


def _logistic(rows_ND: Tensor, labels_N: Tensor) -> Tensor:
    """Return cross-validated probabilities of a logistic regression."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    scaled: Any = rows_ND.numpy() * np.sqrt(rows_ND.shape[1])  # entries near 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an early stop is good enough here
        probabilities = cross_val_predict(
            LogisticRegression(C=0.1, max_iter=60),
            scaled,
            labels_N.numpy(),
            cv=folds,
            method="predict_proba",
        )
    return torch.from_numpy(probabilities).double()
