"""Stratified division of a labelled set into train, val and test.

Shapes: N examples.
"""

import torch
from torch import Tensor

from hpo.training.catalog import SplitSizes
from hpo.training.determinism import seeded_generator


def stratified_split(
    labels_N: Tensor, sizes: SplitSizes, seed: int, *, is_test_drawn: bool
) -> dict[str, Tensor]:
    """Return the sorted example indices of `train`, `val` and `test`.

    Every class has the same share of each split, up to rounding, and the sizes are exactly those
    asked for: classes with the largest remainders are rounded up.

    Args:
        labels_N: int64 class of each example to divide.
        sizes: of the splits.
        seed: decides which examples go where.
        is_test_drawn: whether the test split is drawn from these examples; otherwise the set has
            its own, whose examples follow these.
    """
    generator = seeded_generator(seed)
    order_N = torch.randperm(len(labels_N), generator=generator)
    classes = sorted(set(labels_N.tolist()))
    by_class = [order_N[labels_N[order_N] == label] for label in classes]
    val_counts = _apportion([len(indices) for indices in by_class], sizes.num_val)
    num_drawn = sizes.num_test if is_test_drawn else 0
    test_counts = _apportion([len(indices) for indices in by_class], num_drawn)
    parts: dict[str, list[Tensor]] = {"train": [], "val": [], "test": []}
    for indices, num_val, num_test in zip(by_class, val_counts, test_counts, strict=True):
        parts["val"].append(indices[:num_val])
        parts["test"].append(indices[num_val : num_val + num_test])
        parts["train"].append(indices[num_val + num_test :])
    split = {name: torch.cat(tensors).sort().values for name, tensors in parts.items()}
    if not is_test_drawn:
        split["test"] = torch.arange(len(labels_N), len(labels_N) + sizes.num_test)
    return split


def _apportion(class_counts: list[int], total: int) -> list[int]:
    """Divide `total` in proportion to the counts, by largest remainder; ties go to the first."""
    num_examples = sum(class_counts)
    shares = [divmod(total * count, num_examples) for count in class_counts]
    counts = [whole for whole, _ in shares]
    by_remainder = sorted(range(len(shares)), key=lambda index: -shares[index][1])
    for index in by_remainder[: total - sum(counts)]:
        counts[index] += 1
    return counts
