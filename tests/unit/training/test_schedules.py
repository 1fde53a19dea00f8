"""Learning rates are those of the formulas."""

import math
from typing import Literal

import pytest

from hpo.training.schedules import Schedule


def rates(
    kind: Literal["constant", "cosine"], num_steps: int, num_warmup_steps: int
) -> list[float]:
    schedule = Schedule(kind=kind, lr=0.1, num_steps=num_steps, num_warmup_steps=num_warmup_steps)
    return [schedule.learning_rate(step) for step in range(num_steps)]


def test_warm_up_rises_in_equal_steps_to_the_rate() -> None:
    for kind in ("constant", "cosine"):
        assert rates(kind, 10, 4)[:4] == pytest.approx([0.025, 0.05, 0.075, 0.1])


def test_constant_stays_at_the_rate() -> None:
    assert rates("constant", 10, 4)[4:] == [0.1] * 6
    assert rates("constant", 3, 0) == [0.1] * 3


def test_cosine_starts_at_the_rate_is_half_midway_and_ends_near_zero() -> None:
    falling = rates("cosine", 104, 4)[4:]
    assert falling[0] == pytest.approx(0.1)
    assert falling[50] == pytest.approx(0.05)
    assert falling[-1] == pytest.approx(0.05 * (1 - math.cos(math.pi / 100)))
    assert falling == sorted(falling, reverse=True)
