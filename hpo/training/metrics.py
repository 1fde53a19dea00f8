"""Loss and accuracy of a model on a split.

Shapes: N images, C channels, H height, W width, K classes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from hpo.training.data.resident import Split

EVALUATION_BATCH_SIZE: Final = 512
"""Part of the result: sums differ between batch sizes in their last bits."""


class DivergedError(Exception):
    """A loss or a gradient is not finite; the message says which, and in which batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What a model achieves on a split."""

    loss: float
    """Mean cross-entropy over the images, in nats."""
    accuracy: float
    """Share of images whose largest logit is their class's."""


def num_correct(logits_NK: Tensor, labels_N: Tensor) -> Tensor:
    """Return how many largest logits are at the label, as a tensor on the device."""
    return (logits_NK.argmax(dim=1) == labels_N).sum()


def batch_bounds(num_examples: int, batch_size: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each batch, in order, so that every example is in one.

    The last batch may be short. A rest of a single example joins the batch before it: batch
    norm would make a batch of its own meaningless.
    """
    start = 0
    while start < num_examples:
        end = min(start + batch_size, num_examples)
        if batch_size > 1 and num_examples - end == 1:
            end = num_examples
        yield start, end
        start = end


@torch.inference_mode()
def evaluate(model: nn.Module, split: Split, name: str) -> Scores:
    """Return the scores of `model`, dropout and augmentation off; leaves it in evaluation mode.

    Raises:
        DivergedError: the loss of a batch is not finite; the message begins with `name`.
    """
    model.eval()
    loss_sum, correct_sum = 0.0, 0
    for batch, (start, end) in enumerate(batch_bounds(len(split), EVALUATION_BATCH_SIZE), 1):
        labels_N = split.labels_N[start:end]
        logits_NK = model(split.images_NCHW[start:end])
        loss = float(functional.cross_entropy(logits_NK, labels_N, reduction="sum"))
        if not math.isfinite(loss):
            raise DivergedError(f"{name}_loss is {loss:g} in batch {batch}")
        loss_sum += loss
        correct_sum += int(num_correct(logits_NK, labels_N))
    return Scores(loss=loss_sum / len(split), accuracy=correct_sum / len(split))
