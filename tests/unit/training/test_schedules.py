"""Learning rates are those of the formulas."""

import math
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from hpo.training.schedules import Schedule, ScheduleKind, scaled_rate


def rates(
    kind: ScheduleKind, num_steps: int, num_warmup_steps: int, **options: Any
) -> list[float]:
    schedule = Schedule(
        kind=kind, lr=0.1, num_steps=num_steps, num_warmup_steps=num_warmup_steps, **options
    )
    return [schedule.learning_rate(step) for step in range(num_steps)]


def torch_rates(make: Any, num_steps: int, lr: float = 0.1) -> list[float]:
    """Return the rates that one of torch's schedules gives, stepped once for each update."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = make(optimizer)
    found = []
    for _ in range(num_steps):
        found.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        scheduler.step()
    return found


def warmed_up(num_warmup_steps: int, make: Any) -> Any:
    """Return a schedule of torch's after a linear warm-up."""

    def make_both(optimizer: torch.optim.Optimizer) -> lr_scheduler.SequentialLR:
        rise = lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / num_warmup_steps)
        return lr_scheduler.SequentialLR(optimizer, [rise, make(optimizer)], [num_warmup_steps])

    return make_both


def test_cosine_is_torchs() -> None:
    def cosine(optimizer: Any) -> Any:
        return lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.004)

    assert rates("cosine", 20, 0, lr_min=0.004) == pytest.approx(torch_rates(cosine, 20))
    expected = torch_rates(warmed_up(5, cosine), 25)
    assert rates("cosine", 25, 5, lr_min=0.004) == pytest.approx(expected)


def test_step_is_torchs() -> None:
    expected = torch_rates(lambda o: lr_scheduler.StepLR(o, step_size=7, gamma=0.3), 30)
    assert rates("step", 30, 0, steps_per_fall=7, fall_factor=0.3) == pytest.approx(expected)
    floored = rates("step", 30, 0, steps_per_fall=7, fall_factor=0.3, lr_min=0.01)
    assert floored == pytest.approx([max(rate, 0.01) for rate in expected])


def test_linear_is_torchs() -> None:
    expected = torch_rates(
        lambda o: lr_scheduler.LinearLR(o, start_factor=1.0, end_factor=0.2, total_iters=12), 12
    )
    assert rates("linear", 12, 0, lr_min=0.02) == pytest.approx(expected)


@pytest.mark.parametrize("num_warmup_steps", [0, 20])
def test_one_cycle_is_torchs(num_warmup_steps: int) -> None:
    expected = torch_rates(
        lambda o: lr_scheduler.OneCycleLR(
            o,
            max_lr=0.1,
            total_steps=50,
            pct_start=num_warmup_steps / 50 or 0.3,
            cycle_momentum=False,
        ),
        49,
    )
    assert rates("one_cycle", 50, num_warmup_steps)[:49] == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["constant", "step", "cosine", "linear", "one_cycle"])
@pytest.mark.parametrize("num_steps", [1, 2, 3])
def test_the_shortest_trainings_have_rates(kind: ScheduleKind, num_steps: int) -> None:
    for num_warmup_steps in range(num_steps):
        found = rates(kind, num_steps, num_warmup_steps)
        assert all(0 <= rate <= 0.1 for rate in found)


def test_rates_grow_with_the_batch_when_asked() -> None:
    assert scaled_rate(0.1, "none", 256, 64) == 0.1
    assert scaled_rate(0.1, "linear", 256, 64) == pytest.approx(0.4)
    assert scaled_rate(0.1, "sqrt", 256, 64) == pytest.approx(0.2)


def test_warm_up_rises_in_equal_steps_to_the_rate() -> None:
    kinds: tuple[ScheduleKind, ...] = ("constant", "step", "cosine", "linear")
    for kind in kinds:
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
