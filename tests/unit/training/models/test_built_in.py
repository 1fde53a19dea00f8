"""Our networks draw only from their streams, carry their normalisation and scale by their keys."""

import copy

import pytest
import torch
from torch import nn

from hpo.training.config import ClassifierConfig
from hpo.training.determinism import STREAM_NAMES, seeded_generator
from hpo.training.models.classifier import build_model
from hpo.training.models.dropout import StreamDropout
from hpo.training.models.initialisation import drawing_from, initialise, without_weights
from hpo.training.models.simple_cnn import automatic_depth
from hpo.training.optimizers import build_optimizer
from hpo.training.task import BadConfigError
from tests.unit.training.models.networks import SHAPES, build, card, streams
from tracking.checkpoints import weights_digest


@pytest.mark.parametrize("model", ["simple_cnn", "mlp", "resnet9"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_model_takes_every_image_size_as_bytes_or_floats(
    model: str, shape: tuple[int, int, int]
) -> None:
    config = ClassifierConfig.parse({"data": "digits", "model": model, "width": 4})
    classifier = build_model(config, card(shape), streams()).eval()
    pixels = torch.arange(5 * shape[0] * shape[1] * shape[2]).remainder(17)
    images_NCHW = pixels.reshape(5, *shape).to(torch.uint8)
    logits = classifier(images_NCHW)
    assert logits.shape == (5, 4)
    assert torch.equal(logits, classifier(images_NCHW.float()))


def test_pixels_are_normalised_by_the_card() -> None:
    normalize = build().normalize
    normalised = normalize(torch.full((1, 1, 8, 8), 12, dtype=torch.uint8))
    assert normalised.unique().tolist() == [(12 / 16 - 0.5) / 0.25]


def test_a_saved_model_carries_its_normalisation() -> None:
    assert {"normalize.scale", "normalize.shift"} <= set(build().state_dict())


@pytest.mark.parametrize("model", ["simple_cnn", "mlp", "resnet9"])
def test_initial_weights_depend_on_the_init_seed_alone(model: str) -> None:
    # that the global stream stands still is checked after every test
    digests = [weights_digest(build(model, init=seed).state_dict()) for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_initial_weights_have_the_documented_spread() -> None:
    layer = nn.Linear(400, 300, device="meta")
    initialise(layer, seeded_generator(0))
    assert layer.weight.std().item() == pytest.approx((2 / 400) ** 0.5, rel=0.01)
    assert layer.bias.abs().max() == 0


def test_a_layer_without_a_rule_for_its_weights_is_refused() -> None:
    with without_weights():
        layer = nn.PReLU()
    with pytest.raises(TypeError, match="PReLU has no rule"):
        initialise(layer, seeded_generator(0))


def test_dropout_zeroes_the_share_asked_for_and_keeps_the_mean() -> None:
    dropout = StreamDropout(0.25, seeded_generator(0)).train()
    result = dropout(torch.ones(100_000))
    assert (result == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert result.mean().item() == pytest.approx(1.0, abs=0.01)


def test_dropout_draws_anew_from_its_stream() -> None:
    generator = seeded_generator(3)
    dropout = StreamDropout(0.5, generator).train()
    first, second = dropout(torch.ones(100)), dropout(torch.ones(100))
    assert not torch.equal(first, second)
    generator.manual_seed(3)
    assert torch.equal(dropout(torch.ones(100)), first)


@pytest.mark.parametrize(("probability", "is_training"), [(0.5, False), (0.0, True)])
def test_dropout_that_drops_nothing_draws_nothing(probability: float, is_training: bool) -> None:
    generator = seeded_generator(0)
    before = generator.get_state()
    inputs = torch.ones(10)
    assert StreamDropout(probability, generator).train(is_training)(inputs) is inputs
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_only_filters_and_matrices_decay(optimizer: str) -> None:
    model = build(optimizer=optimizer, weight_decay=0.1)
    config = ClassifierConfig.parse(
        {"data": "digits", "optimizer": optimizer, "weight_decay": 0.1, "lr": 0.5}
    )
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    build_optimizer(config, model.parameter_groups()).step()
    for name, weight in model.named_parameters():
        factor = 1 - 0.5 * 0.1 if weight.ndim >= 2 else 1.0
        torch.testing.assert_close(weight.detach(), before[name] * factor, msg=name)
    assert {weight.ndim for weight in model.parameters()} == {1, 2, 4}


def test_streams_come_back_where_they_stood() -> None:
    original, copy = streams(dropout=5), streams()
    torch.rand(3, generator=original.dropout)
    copy.load_state_dict(original.state_dict())
    for name in STREAM_NAMES:
        draws = [torch.rand(4, generator=getattr(s, name)) for s in (original, copy)]
        assert torch.equal(*draws)


def convolutions(model: nn.Module) -> list[nn.Conv2d]:
    return [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]


def test_simple_cnn_has_as_many_blocks_as_suit_the_image() -> None:
    assert [automatic_depth(side, side) for side in (8, 28, 32, 64, 224)] == [2, 2, 2, 3, 5]
    assert automatic_depth(224, 32) == 2
    layers = convolutions(build(shape=(3, 64, 64), width=4))
    assert [layer.out_channels for layer in layers] == [4, 4, 8, 8, 16, 16]


def test_the_keys_of_simple_cnn_shape_it() -> None:
    model = build(width=6, depth=3, activation="silu", batch_norm=False, dropout=0.4)
    layers = convolutions(model)
    assert [layer.out_channels for layer in layers] == [6, 6, 12, 12, 24, 24]
    assert all(layer.bias is not None for layer in layers)
    kinds = [type(layer) for layer in model.modules()]
    assert kinds.count(nn.SiLU) == 6
    assert nn.BatchNorm2d not in kinds
    drops = [layer for layer in model.modules() if isinstance(layer, StreamDropout)]
    assert [layer.probability for layer in drops] == [0.4] * 3
    assert nn.BatchNorm2d in [type(layer) for layer in build().modules()]


def test_the_keys_of_mlp_shape_it() -> None:
    model = build("mlp", width=3, depth=3, activation="gelu")
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    assert [layer.out_features for layer in layers] == [24, 24, 24, 4]
    assert [type(layer) for layer in model.modules()].count(nn.GELU) == 3


def test_more_blocks_than_an_image_can_be_halved_are_refused() -> None:
    with pytest.raises(BadConfigError, match=r"depth is 4, but images of 8 x 8 pixels.* 3 times"):
        build(depth=4)
    with pytest.raises(BadConfigError, match="resnet9, which needs images of 8 x 8"):
        build("resnet9", shape=(1, 7, 9))


def test_dropout_of_whole_channels_shares_one_draw() -> None:
    dropout = StreamDropout(0.5, seeded_generator(0), 2).train()
    kept = dropout(torch.ones(50, 20, 4, 4)).flatten(2)
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(kept.amin(dim=2), kept.amax(dim=2))
    assert 0.4 < kept.mean() / 2 < 0.6


def test_a_deep_copy_of_dropout_draws_from_the_same_stream() -> None:
    generator = seeded_generator(0)
    dropout = StreamDropout(0.5, generator).train()
    copied = copy.deepcopy(dropout)
    state = generator.get_state()
    expected = dropout(torch.ones(20))
    generator.set_state(state)
    assert copied.training
    assert torch.equal(copied(torch.ones(20)), expected)


def test_a_lent_stream_moves_and_the_global_one_does_not() -> None:
    generator, same = seeded_generator(5), seeded_generator(5)
    before = torch.default_generator.get_state()
    with drawing_from(generator):
        drawn = torch.rand(4)
    assert torch.equal(drawn, torch.rand(4, generator=same))
    assert torch.equal(generator.get_state(), same.get_state())
    assert torch.equal(torch.default_generator.get_state(), before)
