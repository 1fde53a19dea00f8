import math
from pathlib import Path

import pytest

from hpo.clock import SystemClock
from hpo.training.range_test import RangeTest, judged, range_test
from hpo.training.task import BadConfigError
from tests.unit.training.trials import small_request


def find(cache_dir: Path, num_steps: int = 150, **config: object) -> RangeTest:
    settings = {"model": "mlp", "augment": 0.0, "batch_size": 64, **config}
    request = small_request(cache_dir, settings)
    return range_test(request, SystemClock(), low=1e-7, high=10.0, num_steps=num_steps)


def made_up(bend: float, end: float) -> tuple[list[float], list[float]]:
    """A loss of 2.3 that falls from `bend` on and breaks away at `end`."""
    rates = [10 ** (-7 + 8 * step / 149) for step in range(150)]
    losses = [
        2.3 - 1.8 * min(1.0, max(0.0, math.log10(rate / bend) / math.log10(end / bend)))
        if rate < end
        else 3.0
        for rate in rates
    ]
    return rates, losses


@pytest.mark.parametrize(("bend", "end"), [(1e-4, 1e-1), (1e-3, 1.0), (1e-5, 1e-3)])
def test_the_range_is_where_the_loss_falls(bend: float, end: float) -> None:
    found = judged(*made_up(bend, end), "")
    assert found.low is not None
    assert found.high is not None
    assert found.steepest is not None
    assert bend / 2 < found.low < bend * 3
    assert end / 2.5 < found.high < end * 1.5
    assert found.low <= found.steepest <= found.high


def test_a_loss_that_never_falls_gives_no_range() -> None:
    rates, _ = made_up(1e-4, 1e-1)
    noise = [2.3 + 0.02 * math.sin(step) for step in range(150)]
    found = judged(rates, noise, "")
    assert found.low is found.high is found.steepest is None


def test_a_rate_that_works_lies_within_the_range_found(cache_dir: Path) -> None:
    found = find(cache_dir)
    assert found.low is not None
    assert found.high is not None
    assert 1e-6 < found.low < 3e-3 < found.high < 1.0  # 3e-3 is what the tests train with
    assert len(found.rates) == len(found.losses) == len(found.smooth)
    assert found.rates[0] == pytest.approx(1e-7)
    assert list(found.rates) == sorted(found.rates)


def test_it_repeats_itself(cache_dir: Path) -> None:
    assert find(cache_dir, 60) == find(cache_dir, 60)


def test_the_schedule_and_rate_of_the_configuration_play_no_part(cache_dir: Path) -> None:
    other = find(cache_dir, 60, lr=5.0, schedule="step", epochs=30, warmup_epochs=9)
    assert other == find(cache_dir, 60)


def test_parts_of_a_batch_count_as_one_update(cache_dir: Path) -> None:
    whole, in_parts = find(cache_dir, 40), find(cache_dir, 40, accumulate=4)
    assert {len(whole.losses), len(in_parts.losses)} <= set(range(34, 41))  # not 4 times as many
    assert in_parts.losses[0] == pytest.approx(whole.losses[0], rel=0.2)  # other units dropped


def test_a_rate_that_overflows_ends_the_test_with_what_it_saw(cache_dir: Path) -> None:
    request = small_request(cache_dir, {"model": "mlp", "augment": 0.0})
    found = range_test(request, SystemClock(), low=1e-3, high=1e30, num_steps=60)
    assert "nan" in found.remark or "inf" in found.remark or "broke away" in found.remark
    assert all(math.isfinite(loss) for loss in found.losses)


def test_a_range_that_does_not_rise_is_refused(cache_dir: Path) -> None:
    with pytest.raises(BadConfigError, match="must rise"):
        range_test(small_request(cache_dir), SystemClock(), low=1e-1, high=1e-3, num_steps=50)
