"""What is computed in 16 bits, and what stays in 32."""

import pytest
import torch
from torch import Tensor, nn

from hpo.training.precision import Precision, keep_fp32
from hpo.training.task import BadConfigError
from tests.unit.training.trials import undrawn


class Spy(nn.Module):
    """Remembers in which format it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.dtypes: list[torch.dtype] = []

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layer(inputs)
        self.dtypes.append(outputs.dtype)
        return outputs


def test_named_layers_and_all_below_them_compute_in_32_bits() -> None:
    model = undrawn(lambda: nn.Sequential(Spy(), Spy(), nn.Sequential(Spy())))
    keep_fp32(model, ["1", "2"])
    with Precision("bf16", "cpu").autocast():
        model(torch.ones(3, 2))
    spies = [module for module in model.modules() if isinstance(module, Spy)]
    assert [spy.dtypes for spy in spies] == [[torch.bfloat16], [torch.float32], [torch.float32]]


def test_names_in_checkpoints_stay_as_they_are() -> None:
    model = undrawn(lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    before = list(model.state_dict())
    keep_fp32(model, ["1"])
    assert list(model.state_dict()) == before


def test_a_layer_that_is_not_there_is_named_with_those_that_are() -> None:
    model = undrawn(lambda: nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(BadConfigError, match=r"names 'head', which the model does not have.* 0"):
        keep_fp32(model, ["head"])


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_norms_keep_weights_and_statistics_in_32_bits(kind: str) -> None:
    norm = undrawn(lambda: nn.BatchNorm2d(2))
    images = torch.rand(4, 2, 3, 3, generator=torch.Generator().manual_seed(0)) * 100
    with Precision(kind, "cpu").autocast():  # type: ignore[arg-type]
        norm(images)
    assert norm.running_mean is not None
    assert norm.running_mean.dtype is torch.float32
    assert norm.running_mean == pytest.approx(0.1 * images.mean(dim=(0, 2, 3)))


def test_fp32_changes_nothing() -> None:
    precision = Precision("fp32", "cpu")
    with precision.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    assert precision.state_dict() == {}
    assert not precision.is_scaled
