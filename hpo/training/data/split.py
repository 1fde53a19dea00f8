"""Division of a set into train, val and test: by stored indices, the same share of every class.

Shapes: N examples.
"""

import torch
from torch import Tensor

from hpo.training.catalog import SplitSizes, split_sizes
from hpo.training.data.source import TEST, TO_DIVIDE, TRAIN, VAL
from hpo.training.determinism import seeded_generator


def divide(
    strata_N: Tensor,
    given_N: Tensor,
    fractions: tuple[float, float],
    split_seed: int,
    resplit_seed: int | None = None,
) -> dict[str, Tensor]:
    """Return the sorted example indices of `train`, `val` and `test`.

    Splits that are given stay as they are. Where val or test is not, it is drawn from train and
    from what is to be divided.

    Args:
        strata_N: int64; of each, every split gets its share.
        given_N: the split code of each example; other codes than the four leave it out.
        fractions: of validation and of test, among what is to be divided.
        split_seed: decides which examples go where.
        resplit_seed: redraws train and val among themselves, sizes and test split kept; or None.
    """
    num_val, num_test = (int((given_N == code).sum()) for code in (VAL, TEST))
    if not (num_val and num_test):
        given_N = torch.where(given_N == TRAIN, TO_DIVIDE, given_N)
    free_N = (given_N == TO_DIVIDE).nonzero().flatten()
    drawn = split_sizes(
        len(free_N), num_test or None, 0.0 if num_val else fractions[0], fractions[1]
    )
    sizes = SplitSizes(
        num_train=drawn.num_train,
        num_val=drawn.num_val,
        num_test=0 if num_test else drawn.num_test,
    )
    parts = stratified_split(strata_N[free_N], sizes, split_seed)
    split: dict[str, Tensor] = {}
    for code, name in ((TRAIN, "train"), (VAL, "val"), (TEST, "test")):
        fixed_N = (given_N == code).nonzero().flatten()
        split[name] = torch.cat([free_N[parts[name]], fixed_N]).sort().values
    if resplit_seed is not None:
        pool_N = torch.cat([split["train"], split["val"]]).sort().values
        again = SplitSizes(num_train=len(split["train"]), num_val=len(split["val"]), num_test=0)
        redrawn = stratified_split(strata_N[pool_N], again, resplit_seed)
        split |= {name: pool_N[redrawn[name]] for name in ("train", "val")}
    return split


def stratified_split(strata_N: Tensor, sizes: SplitSizes, seed: int) -> dict[str, Tensor]:
    """Return the sorted example indices of `train`, `val` and `test`, all of them drawn.

    Every stratum has the same share of each split, up to rounding, and the sizes are exactly those
    asked for: strata with the largest remainders are rounded up.

    Args:
        strata_N: int64 class of each example to divide.
        sizes: of the splits; they add up to N.
        seed: decides which examples go where.
    """
    generator = seeded_generator(seed)
    order_N = torch.randperm(len(strata_N), generator=generator)
    strata = sorted(set(strata_N.tolist()))
    by_stratum = [order_N[strata_N[order_N] == stratum] for stratum in strata]
    val_counts = _apportion([len(indices) for indices in by_stratum], sizes.num_val)
    test_counts = _apportion([len(indices) for indices in by_stratum], sizes.num_test)
    none = torch.zeros(0, dtype=torch.int64)
    parts: dict[str, list[Tensor]] = {"train": [none], "val": [none], "test": [none]}
    for indices, num_val, num_test in zip(by_stratum, val_counts, test_counts, strict=True):
        parts["val"].append(indices[:num_val])
        parts["test"].append(indices[num_val : num_val + num_test])
        parts["train"].append(indices[num_val + num_test :])
    return {name: torch.cat(tensors).sort().values for name, tensors in parts.items()}


def _apportion(counts: list[int], total: int) -> list[int]:
    """Divide `total` in proportion to the counts, by largest remainder; ties go to the first."""
    num_examples = sum(counts)
    shares = [divmod(total * count, num_examples) for count in counts]
    apportioned = [whole for whole, _ in shares]
    by_remainder = sorted(range(len(shares)), key=lambda index: -shares[index][1])
    for index in by_remainder[: total - sum(apportioned)]:
        apportioned[index] += 1
    return apportioned
