"""The average is torch's, begins when it should, and is what takes the place of the weights."""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from hpo.training.averaging import WeightAverage
from tests.unit.training.trials import undrawn


def model() -> nn.Module:
    made = undrawn(lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))
    with torch.no_grad():
        for index, weight in enumerate(made.parameters()):
            weight.copy_(torch.linspace(-1, 1, weight.numel()).reshape(weight.shape) + index)
    return made


def move(moved: nn.Module, step: int) -> None:
    with torch.no_grad():
        for weight in moved.parameters():
            weight.add_(torch.linspace(0, 0.3, weight.numel()).reshape(weight.shape) * step)


def test_it_is_torchs() -> None:
    ours, theirs = model(), model()
    average = WeightAverage(ours, decay=0.9, start_step=0)
    reference = AveragedModel(theirs, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for step in range(1, 6):
        move(ours, step)
        move(theirs, step)
        average.update(step)
        reference.update_parameters(theirs)
    with average.applied():
        for mine, other in zip(ours.parameters(), reference.module.parameters(), strict=True):
            assert torch.equal(mine, other)


def test_it_is_the_formula() -> None:
    one = undrawn(lambda: nn.Linear(1, 1, bias=False))
    average = WeightAverage(one, decay=0.75, start_step=2)
    values = [5.0, 1.0, 8.0, 4.0]
    for step, value in enumerate(values, 1):
        with torch.no_grad():
            one.weight.fill_(value)
        average.update(step)
    # begins with the third update: 8, then 0.75 * 8 + 0.25 * 4
    with average.applied():
        assert one.weight.item() == 7.0
    assert one.weight.item() == 4.0


def test_before_it_begins_the_weights_stand_for_themselves() -> None:
    one = undrawn(lambda: nn.Linear(1, 1, bias=False))
    average = WeightAverage(one, decay=0.75, start_step=2)
    average.update(1)
    average.update(2)
    with torch.no_grad():
        one.weight.fill_(3.0)
    with average.applied():
        assert one.weight.item() == 3.0
    assert average.state_dict() == {}


def test_without_a_decay_nothing_is_kept() -> None:
    average = WeightAverage(model(), decay=0.0, start_step=0)
    average.update(1)
    assert not average.is_enabled
    assert average.state_dict() == {}


def test_a_norms_statistics_are_averaged_and_its_counter_is_not() -> None:
    averaged = model()
    average = WeightAverage(averaged, decay=0.5, start_step=0)
    for step in (1, 2):
        averaged(torch.full((2, 3), float(step)))
        average.update(step)
    assert "1.running_mean" in average.state_dict()
    assert "1.num_batches_tracked" not in average.state_dict()


def test_it_goes_on_from_where_it_stood() -> None:
    whole, again = model(), model()
    averages = [WeightAverage(m, decay=0.9, start_step=0) for m in (whole, again)]
    for m, average in zip((whole, again), averages, strict=True):
        move(m, 1)
        average.update(1)
    resumed = WeightAverage(again, decay=0.9, start_step=0)
    resumed.load_state_dict(averages[1].state_dict())
    for m, average in ((whole, averages[0]), (again, resumed)):
        move(m, 2)
        average.update(2)
    for name, tensor in averages[0].state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name])
