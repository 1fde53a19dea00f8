"""How well a model does on a split.

Shapes: N examples, K classes or target columns.
"""

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from hpo.training.data.batch import Examples, batch_bounds
from hpo.training.data.source import TargetKind
from hpo.training.losses import Loss
from hpo.training.ranks import ALONE, Ranks

EVALUATION_BATCH_SIZE: Final = 512
"""Part of the result: sums differ between batch sizes in their last bits."""

CROSS_ENTROPY: Final = Loss(kind="cross_entropy")
"""What is measured where nothing else is said."""


class DivergedError(Exception):
    """A loss or a gradient is not finite; the message says which, and in which batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What a model achieves on a split."""

    loss: float
    """Mean over the examples, in nats for classes."""
    accuracy: float
    """Share of right answers; see `num_correct`."""
    macro_f1: float
    """Mean over classes of 2 TP / (2 TP + FP + FN), classes that neither occur nor are predicted
    left out; 0 where numbers are predicted."""
    actual_counts: tuple[int, ...] = ()
    """Examples by class; empty where numbers are predicted."""
    predicted_counts: tuple[int, ...] = ()
    """Examples by the class predicted."""


def num_correct(outputs_NK: Tensor, targets: Tensor, loss: Loss = CROSS_ENTROPY) -> Tensor:
    """Return how many answers are right, as a tensor on the device.

    Classes, also mixed ones: the largest logit is at the (largest) class. Labels judged alone: the
    share of an example's labels whose logit has the right sign. Numbers: the share of an example's
    outputs within 0.5.
    """
    if not targets.is_floating_point():
        return (outputs_NK.argmax(dim=1) == targets).sum()
    match loss.target_kind:
        case TargetKind.MULTILABEL:
            return ((outputs_NK > 0) == (targets > 0.5)).double().mean(dim=1).sum()
        case TargetKind.REGRESSION:
            distance_NK = (outputs_NK - targets.reshape(outputs_NK.shape)).abs()
            return (distance_NK < 0.5).double().mean(dim=1).sum()
        case TargetKind.CLASS | TargetKind.SOFT:
            return (outputs_NK.argmax(dim=1) == targets.argmax(dim=1)).sum()


@torch.inference_mode()
def evaluate(
    model: nn.Module,
    split: Examples,
    name: str,
    loss: Loss = CROSS_ENTROPY,
    ranks: Ranks = ALONE,
) -> Scores:
    """Return the scores of `model`, dropout and augmentation off; leaves it in evaluation mode.

    Args:
        model: of the outputs.
        split: its examples; several ranks share them.
        name: of the split, for messages.
        loss: what to measure, in its plain form.
        ranks: this process among those that evaluate together.

    Raises:
        DivergedError: the loss of a batch is not finite; the message begins with `name`.
    """
    model.eval()
    bounds = list(batch_bounds(len(split), EVALUATION_BATCH_SIZE))
    losses_B = torch.zeros(len(bounds), dtype=torch.float64, device=split.labels_N.device)
    correct = torch.zeros_like(losses_B[0])
    counts_3K: Tensor | None = None
    own = list(range(ranks.rank, len(bounds), ranks.num_ranks))
    # a rank without a batch of its own looks at one for its shape, and counts nothing of it
    looked_at = own or [0]
    batches = split.batches([bounds[index] for index in looked_at])
    for index, batch in zip(looked_at, batches, strict=True):
        outputs_NK = model(batch.images_NCHW).float()
        weight = 1 if own else 0
        losses_B[index] = loss.total(outputs_NK, batch.labels_N) * weight
        correct += num_correct(outputs_NK, batch.labels_N, loss) * weight
        found_3K = _count_classes(outputs_NK, batch.labels_N, loss) * weight
        counts_3K = found_3K if counts_3K is None else counts_3K + found_3K
    if counts_3K is None:
        raise ValueError(f"the {name} split is empty")
    ranks.add_up(losses_B, correct, counts_3K)
    for number, value in enumerate(losses_B.tolist(), 1):
        if not math.isfinite(value):
            raise DivergedError(f"{name}_loss is {value:g} in batch {number}")
    true_K, actual_K, predicted_K = counts_3K.cpu()
    return Scores(
        loss=float(losses_B.sum()) / len(split),
        accuracy=float(correct) / len(split),
        macro_f1=_macro_f1(true_K, actual_K, predicted_K),
        actual_counts=tuple(int(count) for count in actual_K),
        predicted_counts=tuple(int(count) for count in predicted_K),
    )


def _count_classes(outputs_NK: Tensor, targets: Tensor, loss: Loss) -> Tensor:
    """Return, by class, how often it was rightly predicted, was there, and was predicted."""
    num_classes = outputs_NK.shape[1]
    if loss.target_kind is TargetKind.REGRESSION:
        return torch.zeros(3, 0, dtype=torch.int64, device=outputs_NK.device)
    if loss.target_kind is TargetKind.MULTILABEL:
        actual_NK, predicted_NK = targets > 0.5, outputs_NK > 0
        rows = (actual_NK & predicted_NK, actual_NK, predicted_NK)
        return torch.stack([row_NK.sum(dim=0) for row_NK in rows])
    actual_N = targets.argmax(dim=1) if targets.is_floating_point() else targets
    predicted_N = outputs_NK.argmax(dim=1)
    kept = (actual_N[actual_N == predicted_N], actual_N, predicted_N)
    return torch.stack([torch.bincount(row_N, minlength=num_classes) for row_N in kept])


def _macro_f1(true_K: Tensor, actual_K: Tensor, predicted_K: Tensor) -> float:
    total_K = actual_K + predicted_K
    there_K = total_K > 0
    if not bool(there_K.any()):
        return 0.0
    return float((2 * true_K[there_K] / total_K[there_K]).double().mean())
