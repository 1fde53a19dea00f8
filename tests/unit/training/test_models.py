"""Models draw only from their streams, carry their normalisation and decay only their weights."""

from typing import Any

import pytest
import torch
from torch import nn

from hpo.training.config import ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.determinism import STREAM_NAMES, RandomStreams, seeded_generator
from hpo.training.models.classifier import Classifier, build_model
from hpo.training.models.dropout import StreamDropout
from hpo.training.models.initialisation import initialise, without_weights
from hpo.training.optimizers import build_optimizer
from tracking.checkpoints import weights_digest

SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]


def card(image_shape: tuple[int, int, int]) -> DataCard:
    return DataCard(
        name="digits",
        fingerprint="",
        num_train=10,
        num_val=5,
        num_test=5,
        num_classes=10,
        class_labels=tuple("0123456789"),
        image_shape=image_shape,
        pixel_scale=16.0,
        mean=(0.25,) * image_shape[0],
        std=(0.5,) * image_shape[0],
    )


def streams(**seeds: int) -> RandomStreams:
    return RandomStreams(dict.fromkeys(STREAM_NAMES, 0) | seeds)


def build(model: str = "simple_cnn", init: int = 0, **keys: Any) -> Classifier:
    config = ClassifierConfig.parse({"data": "digits", "model": model, "width": 4, **keys})
    return build_model(config, card(SHAPES[0]), streams(init=init))


@pytest.mark.parametrize("model", ["simple_cnn", "mlp"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_model_takes_every_image_size_as_bytes_or_floats(
    model: str, shape: tuple[int, int, int]
) -> None:
    config = ClassifierConfig.parse({"data": "digits", "model": model, "width": 4})
    classifier = build_model(config, card(shape), streams()).eval()
    pixels = torch.arange(5 * shape[0] * shape[1] * shape[2]).remainder(17)
    images_NCHW = pixels.reshape(5, *shape).to(torch.uint8)
    logits = classifier(images_NCHW)
    assert logits.shape == (5, 10)
    assert torch.equal(logits, classifier(images_NCHW.float()))


def test_pixels_are_normalised_by_the_card() -> None:
    normalize = build().normalize
    normalised = normalize(torch.full((1, 1, 8, 8), 12, dtype=torch.uint8))
    assert normalised.unique().tolist() == [(12 / 16 - 0.25) / 0.5]


def test_a_saved_model_carries_its_normalisation() -> None:
    assert {"normalize.scale", "normalize.shift"} <= set(build().state_dict())


@pytest.mark.parametrize("model", ["simple_cnn", "mlp"])
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
    build_optimizer(config, model).step()
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
