"""An epoch takes every example once, in the same updates however they are divided."""

import pytest
import torch

from hpo.training.plan import Batching, EpochPlan, plan_epoch

ORDER_N = torch.arange(100, 123).flip(0)


def taken(plan: EpochPlan) -> list[list[int]]:
    """Return the examples of each update, in parts one after the other."""
    bounds = iter(plan.bounds)
    updates = []
    for update in plan.updates:
        spans = [next(bounds) for _ in update.part_sizes]
        updates.append(
            plan.indices_N[spans[0][0] : spans[-1][1]].tolist() if update.weight else []
        )
    return updates


def test_an_update_takes_a_batch_and_the_last_what_is_left() -> None:
    plan = plan_epoch(ORDER_N, Batching(size=8))
    assert [update.part_sizes for update in plan.updates] == [(8,), (8,), (7,)]
    assert plan.bounds == [(0, 8), (8, 16), (16, 23)]
    assert plan.indices_N is ORDER_N


def test_parts_divide_each_update_and_count_for_all_of_it() -> None:
    plan = plan_epoch(ORDER_N, Batching(size=8, accumulate=4))
    assert [update.part_sizes for update in plan.updates] == [(2,) * 4, (2,) * 4, (2, 2, 3)]
    assert [update.num_examples for update in plan.updates] == [8, 8, 7]


def test_the_last_batch_can_be_left_out() -> None:
    plan = plan_epoch(ORDER_N, Batching(size=8, drop_last=True))
    assert [update.num_examples for update in plan.updates] == [8, 8]


@pytest.mark.parametrize("num_ranks", [2, 3, 8])
@pytest.mark.parametrize("accumulate", [1, 4])
def test_all_ranks_together_take_what_one_takes(num_ranks: int, accumulate: int) -> None:
    batching = Batching(size=8, accumulate=accumulate)
    alone = taken(plan_epoch(ORDER_N, batching))
    shares = [taken(plan_epoch(ORDER_N, batching, rank, num_ranks)) for rank in range(num_ranks)]
    for index, expected in enumerate(alone):
        together = [example for share in shares for example in share[index]]
        assert sorted(together) == sorted(expected)
        assert max(len(share[index]) for share in shares) <= -(-len(expected) // num_ranks)


def test_a_rank_without_examples_takes_one_along_that_counts_for_nothing() -> None:
    plan = plan_epoch(torch.tensor([7, 8]), Batching(size=8), rank=2, num_ranks=3)
    (update,) = plan.updates
    assert (update.part_sizes, update.weight, update.num_examples) == ((1,), 0, 2)
    assert plan.indices_N.tolist() == [7]
