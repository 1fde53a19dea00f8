"""Augmentation varies training images as documented, and what is off leaves everything alone."""

from typing import Any

import pytest
import torch
from torch import Tensor

from hpo.training.augmentation.augmentation import Augmentation, build_augmentation
from hpo.training.augmentation.recipe import recipe_of
from hpo.training.config import CLASSIFIER_SCHEMA, ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.determinism import seeded_generator
from hpo.training.task import BadConfigError

SCALE = 16.0


def card(name: str = "digits", channels: int = 1, side: int = 8) -> DataCard:
    return DataCard(
        name=name,
        fingerprint="",
        num_train=10,
        num_val=5,
        num_test=5,
        num_classes=10,
        class_labels=tuple("0123456789"),
        image_shape=(channels, side, side),
        pixel_scale=SCALE,
        mean=(0.25, 0.5, 0.75)[:channels],
        std=(0.5,) * channels,
    )


def build(data: DataCard, generator: torch.Generator, **keys: Any) -> Augmentation:
    config = {"data": "digits"} | {name.replace("__", "."): keys[name] for name in keys}
    return build_augmentation(ClassifierConfig.parse(config), data, generator)


def images(side: int = 8, channels: int = 1, num_images: int = 64) -> Tensor:
    """Return equal images with a bright block off the centre."""
    pixels = torch.zeros(num_images, channels, side, side, dtype=torch.uint8)
    pixels[:, :, side // 4 : side // 2, side // 4 : side // 2 + 1] = 16
    return pixels


def noise(channels: int = 3, side: int = 32, num_images: int = 64) -> Tensor:
    return SCALE * torch.rand(
        num_images, channels, side, side, generator=torch.Generator().manual_seed(0)
    )


EVERYTHING: dict[str, Any] = {
    "augment": 1.0,
    "augment__crop": 0.5,
    "augment__rand_ops": 2,
    "augment__rand_magnitude": 0.5,
}


def test_strength_0_returns_the_very_images_and_draws_nothing() -> None:
    generator = seeded_generator(1)
    before = generator.get_state()
    augmentation = build(card("cifar10", 3), generator)
    given, labels = images(channels=3), torch.arange(64) % 10
    assert augmentation(given) is given
    mixed, targets = augmentation.mix(given, labels, 10)
    assert mixed is given
    assert targets is labels
    assert not augmentation.is_mixing
    assert torch.equal(generator.get_state(), before)


def test_a_named_operation_goes_before_the_recipe() -> None:
    off = {"augment__translate": 0, "augment__rotation": 0, "augment__scale": 0}
    given = images()
    assert build(card(), seeded_generator(0), augment=1.0, **off)(given) is given
    alone = build(card(), seeded_generator(0), augment__rotation=1.0)(given)
    whole = build(card(), seeded_generator(0), augment=1.0)(given)
    assert not torch.equal(alone, whole)
    assert not torch.equal(alone, given)


@pytest.mark.parametrize("keys", [EVERYTHING, {"augment__color": 0.5}, {"augment__rand_ops": 3}])
def test_each_image_is_varied_on_its_own_and_anew_each_time(keys: dict[str, Any]) -> None:
    augmentation = build(card("cifar10", 3, 32), seeded_generator(1), **keys)
    given = noise()[:1].expand(64, -1, -1, -1)
    first, second = augmentation(given), augmentation(given)
    # RandAugment draws the identity now and then
    assert len(first.flatten(1).unique(dim=0)) > 55
    assert not torch.equal(first, second)


def test_an_equal_seed_varies_and_mixes_equally_and_another_does_not() -> None:
    results = []
    for seed in (7, 7, 8):
        mixing = {"augment__mixup": 0.4, "augment__cutmix": 1.0}
        augmentation = build(card("x", 3, 32), seeded_generator(seed), **EVERYTHING, **mixing)
        results.append(augmentation.mix(augmentation(noise()), torch.arange(64) % 10, 10))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    assert not torch.equal(results[0][0], results[2][0])


def test_augmentation_goes_on_where_its_stream_is_put_back() -> None:
    generator = seeded_generator(3)
    augmentation = build(card("x", 3, 32), generator, **EVERYTHING, augment__mixup=1.0)
    augmentation(noise())
    state = generator.get_state()
    expected = augmentation.mix(augmentation(noise()), torch.arange(64) % 10, 10)
    other = seeded_generator(0)
    other.set_state(state)
    again = build(card("x", 3, 32), other, **EVERYTHING, augment__mixup=1.0)
    found = again.mix(again(noise()), torch.arange(64) % 10, 10)
    assert all(torch.equal(*pair) for pair in zip(expected, found, strict=True))


def test_a_further_operation_moves_no_draws_of_the_others() -> None:
    keys = {"augment__rotation": 1.0, "augment__translate": 1.0}
    alone = build(card(), seeded_generator(1), **keys)(images())
    more = build(card(), seeded_generator(1), **keys, augment__erasing=0.5)(images())
    is_equal = (alone == more).flatten(1).all(dim=1)
    assert 0.3 < is_equal.float().mean() < 0.7
    # what changed is a rectangle of the mean
    assert set(more[alone != more].tolist()) == {0.25 * SCALE}


@pytest.mark.parametrize("operation", ["translate", "crop", "rotation", "scale", "color"])
def test_a_stronger_setting_changes_pixels_more(operation: str) -> None:
    given = images(28, 3)
    differences = []
    for strength in (0.1, 0.4, 1.0):
        keys = {f"augment__{operation}": strength}
        result = build(card("x", 3, 28), seeded_generator(1), **keys)(given)
        differences.append((result - given).abs().mean().item())
    assert differences == sorted(differences)
    # whole pixels: a tenth of an eighth of 28 pixels is none
    assert differences[0] > 0 or operation == "translate"
    assert differences[1] > differences[0]


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_stay_in_their_range_and_shape(channels: int) -> None:
    keys = {**EVERYTHING, "augment__rand_ops": 4, "augment__rand_magnitude": 1.0}
    result = build(card("x", channels, 32), seeded_generator(1), **keys)(noise(channels))
    assert result.shape == (64, channels, 32, 32)
    assert result.dtype == torch.float32
    assert result.min() >= 0
    assert result.max() <= SCALE * 1.0001


@pytest.mark.parametrize(
    ("name", "channels", "is_mirrored"),
    [("cifar10", 3, True), ("mnist", 1, False), ("scans", 1, False), ("photos", 3, True)],
)
def test_only_where_it_is_sane_images_are_mirrored(
    name: str, channels: int, is_mirrored: bool
) -> None:
    pixels = torch.zeros(300, channels, 32, 32, dtype=torch.uint8)
    pixels[..., :8] = 16  # bright on the left edge; shifts and turns are too small to cross over
    keys = {"augment": 1.0, "augment__crop": 0, "augment__erasing": 0}
    result = build(card(name, channels, 32), seeded_generator(1), **keys)(pixels)
    is_right = result[..., 16:].mean(dim=(1, 2, 3)) > result[..., :16].mean(dim=(1, 2, 3))
    share = is_right.float().mean()
    assert 0.4 < share < 0.6 if is_mirrored else share == 0


def test_a_turn_on_an_oblong_image_keeps_lengths() -> None:
    pixels = torch.zeros(200, 1, 20, 60)
    pixels[:, :, 4:16, 24:36] = 16  # a square in the middle
    result = build(card(side=20), seeded_generator(1), augment__rotation=1.0)(pixels) > 8
    heights = result.any(dim=3).sum(dim=2).float()
    widths = result.any(dim=2).sum(dim=2).float()
    assert heights.max() > 12.5
    assert (heights - widths).abs().max() <= 1


def test_a_crop_shows_a_part_of_the_image_at_full_size() -> None:
    rows = torch.arange(64.0).reshape(1, 1, 64, 1).expand(300, 1, 64, 64)
    columns = rows.transpose(2, 3)
    spans = []
    for pixels, dim in ((rows, 2), (columns, 3)):
        result = build(card("x", 1, 64), seeded_generator(1), augment__crop=1.0)(pixels)
        assert result.max() <= 63
        first = result.select(dim, 0).amin(dim=(1, 2))
        last = result.select(dim, 63).amax(dim=(1, 2))
        spans.append((last - first + 1) / 64)
    area = spans[0] * spans[1]
    assert area.min() > 0.2
    assert area.max() < 1.05
    assert area.mean().item() == pytest.approx(0.625, abs=0.05)  # even from a quarter to all


def test_erasing_takes_its_share_of_images_and_a_part_of_each() -> None:
    pixels = torch.full((1000, 3, 32, 32), 10.0)
    result = build(card("x", 3, 32), seeded_generator(1), augment__erasing=0.3)(pixels)
    erased = (result != 10).float().mean(dim=(2, 3))
    is_erased = erased[:, 0] > 0
    assert is_erased.float().mean().item() == pytest.approx(0.3, abs=0.04)
    assert erased[is_erased].min() >= 0.015
    assert erased[is_erased].max() <= 0.22
    assert [set(result[:, c].unique().tolist()) for c in range(3)] == [
        {10.0, 4.0},
        {10.0, 8.0},
        {10.0, 12.0},
    ]


def test_colours_vary_and_a_grey_image_keeps_its_balance() -> None:
    augmentation = build(card("x", 3, 32), seeded_generator(1), augment__color=1.0)
    grey = noise(1).expand(-1, 3, -1, -1)
    result = augmentation(grey)
    torch.testing.assert_close(result[:, 0], result[:, 1])
    torch.testing.assert_close(result[:, 0], result[:, 2])
    brightness = result.mean(dim=(1, 2, 3)) / grey.mean(dim=(1, 2, 3))
    assert brightness.min() < 0.75
    assert brightness.max() > 1.2


@pytest.mark.parametrize("channels", [1, 4])
def test_colours_of_images_without_any_are_refused_in_a_sentence(channels: int) -> None:
    with pytest.raises(BadConfigError, match=f"augment.color varies colours.*have {channels}"):
        build(card("scans", channels), seeded_generator(0), augment__color=0.1)
    assert build(card("scans", channels), seeded_generator(0), augment=1.0).strengths.color == 0


def test_colours_of_a_known_grey_set_are_refused_before_training() -> None:
    found = CLASSIFIER_SCHEMA.problems(
        CLASSIFIER_SCHEMA.complete({"data": "digits", "augment.color": 0.5})
    )
    assert [problem.key for problem in found] == ["augment.color"]
    assert "needs 3 channels" in found[0].message


def test_a_strength_below_0_is_refused_unless_it_means_the_recipe() -> None:
    for value, problems in ((-1, []), (0, []), (-0.5, ["augment.flip"]), (1.5, ["augment.flip"])):
        config = CLASSIFIER_SCHEMA.complete({"data": "digits", "augment.flip": value})
        assert [problem.key for problem in CLASSIFIER_SCHEMA.problems(config)] == problems


def test_every_known_image_set_has_a_recipe_that_suits_its_channels() -> None:
    assert recipe_of(card("digits")).flip == 0
    assert recipe_of(card("fashion_mnist")).flip == 1
    assert recipe_of(card("photos", 3)).crop == 1
    for name in ("digits", "mnist", "fashion_mnist", "scans"):
        assert recipe_of(card(name)).color == 0
