import pytest
import torch
from torch import nn

from hpo.training.debugging import debugging
from hpo.training.layers import NonFiniteLayerError, refusing_non_finite, tracing


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 2)))


@pytest.mark.usefixtures("global_streams")
def test_every_layer_is_written_down_with_its_shapes() -> None:
    model = network()
    with tracing(model) as trace:
        model(torch.zeros(3, 4))
    assert [(call.name, call.inputs, call.output) for call in trace.done] == [
        ("0", ((3, 4),), (3, 8)),
        ("1", ((3, 8),), (3, 8)),
        ("2.0", ((3, 8),), (3, 2)),
    ]
    assert trace.failed is None


@pytest.mark.usefixtures("global_streams")
def test_the_innermost_layer_that_fails_is_the_failed_one() -> None:
    model = network()
    model[2] = nn.Sequential(nn.Linear(9, 2))
    with tracing(model) as trace, pytest.raises(RuntimeError):
        model(torch.zeros(3, 4))
    assert trace.failed is not None
    assert trace.failed.name == "2.0"
    assert trace.table()[-1].endswith("3x8 -> fails")


@pytest.mark.usefixtures("global_streams")
def test_a_model_is_left_without_hooks() -> None:
    model = network()
    with tracing(model):
        pass
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


@pytest.mark.usefixtures("global_streams")
@pytest.mark.parametrize(
    ("name", "cause"), [("0.weight", "its weight holds NaN"), ("2.0.bias", "its bias holds NaN")]
)
def test_the_first_layer_that_is_not_finite_is_named_with_its_cause(name: str, cause: str) -> None:
    model = network()
    with torch.no_grad():
        model.get_parameter(name).fill_(torch.nan)
    with refusing_non_finite(), pytest.raises(NonFiniteLayerError) as caught:
        model(torch.zeros(3, 4))
    assert str(caught.value).startswith(name.rpartition(".")[0])
    assert cause in str(caught.value)


@pytest.mark.usefixtures("global_streams")
def test_finite_layers_pass_and_nothing_is_watched_afterwards() -> None:
    model = network()
    with refusing_non_finite():
        model(torch.zeros(3, 4))
    model(torch.full((3, 4), torch.inf))


@pytest.mark.usefixtures("global_streams")
def test_an_overflow_names_how_large_its_input_was() -> None:
    model = nn.Sequential(nn.Linear(1, 1, bias=False))
    model.get_parameter("0.weight").data.fill_(1e30)
    with refusing_non_finite(), pytest.raises(NonFiniteLayerError, match=r"up to 1e\+20"):
        model(torch.full((1, 1), 1e20))


def test_a_gradient_that_is_not_finite_names_its_operation() -> None:
    value = torch.zeros(1, requires_grad=True)
    told = pytest.warns(UserWarning, match="Error detected in SqrtBackward")
    with debugging(), told, pytest.raises(RuntimeError, match="SqrtBackward"):
        (value.sqrt() * 0.0).sum().backward()
