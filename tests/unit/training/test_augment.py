"""Augmentation varies training images as documented, and strength 0 leaves everything alone."""

import pytest
import torch

from hpo.training.augment import Augmentation
from hpo.training.determinism import seeded_generator


def images(side: int = 8, channels: int = 1, num_images: int = 64) -> torch.Tensor:
    """Return equal images with a bright block off the centre."""
    pixels = torch.zeros(num_images, channels, side, side, dtype=torch.uint8)
    pixels[:, :, side // 4 : side // 2, side // 4 : side // 2 + 1] = 16
    return pixels


def test_strength_0_returns_the_very_images_and_draws_nothing() -> None:
    generator = seeded_generator(1)
    before = generator.get_state()
    given = images()
    assert Augmentation(0.0, "cifar10", generator)(given) is given
    assert torch.equal(generator.get_state(), before)


def test_each_image_is_varied_on_its_own_and_anew_each_time() -> None:
    augmentation = Augmentation(0.5, "digits", seeded_generator(1))
    first, second = augmentation(images()), augmentation(images())
    assert len(first.flatten(1).unique(dim=0)) == 64
    assert not torch.equal(first, second)


def test_an_equal_seed_varies_equally() -> None:
    results = [Augmentation(1.0, "cifar10", seeded_generator(7))(images(32, 3)) for _ in range(2)]
    assert torch.equal(*results)


def test_a_stronger_setting_moves_pixels_further() -> None:
    differences = [
        (Augmentation(s, "mnist", seeded_generator(1))(images(28)) - images(28)).abs().mean()
        for s in (0.05, 0.3, 1.0)
    ]
    assert differences == sorted(differences)
    assert differences[0] > 0


def test_pixels_stay_in_their_range_and_shape() -> None:
    result = Augmentation(1.0, "cifar10", seeded_generator(1))(images(32, 3))
    assert result.shape == (64, 3, 32, 32)
    assert result.dtype == torch.float32
    assert result.min() >= 0
    assert result.max() <= 16.001


@pytest.mark.parametrize(("data", "is_mirrored"), [("cifar10", True), ("mnist", False)])
def test_only_cifar10_is_mirrored(data: str, is_mirrored: bool) -> None:
    pixels = torch.zeros(200, 3, 32, 32, dtype=torch.uint8)
    pixels[..., :8] = 100  # bright on the left edge; shifts and turns are too small to cross over
    result = Augmentation(1.0, data, seeded_generator(1))(pixels)
    is_right = result[..., 16:].mean(dim=(1, 2, 3)) > result[..., :16].mean(dim=(1, 2, 3))
    share = is_right.float().mean()
    assert 0.4 < share < 0.6 if is_mirrored else share == 0
