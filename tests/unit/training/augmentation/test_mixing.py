"""MixUp and CutMix mix images and labels by the same share."""

import pytest
import torch

from hpo.training.augmentation.mixing import BetaTable, Mixing
from hpo.training.determinism import seeded_generator

LABELS = torch.tensor([0, 1, 2, 3, 4, 5])


def test_mixup_adds_images_and_labels_by_one_share_for_each_image() -> None:
    """The image of class k is a constant k: what comes out tells the share and the partner."""
    images = LABELS.float().reshape(6, 1, 1, 1).expand(6, 1, 4, 4)
    mixed, targets = Mixing(1.0, 0.0, seeded_generator(2))(images, LABELS, 6)
    order = torch.randperm(6, generator=seeded_generator(2))
    shares = []
    for index in range(6):
        partner = int(order[index])
        if partner == index:
            assert targets[index].tolist() == [float(k == index) for k in range(6)]
            continue
        share = float(targets[index, index])
        shares.append(share)
        expected = [0.0] * 6
        expected[index], expected[partner] = share, 1 - share
        assert targets[index].tolist() == pytest.approx(expected, abs=1e-6)
        value = share * index + (1 - share) * partner
        torch.testing.assert_close(mixed[index], torch.full((1, 4, 4), value))
    assert len(set(shares)) == len(shares) >= 3


def test_cutmix_pastes_a_rectangle_and_counts_its_pixels() -> None:
    images = LABELS.float().reshape(6, 1, 1, 1).expand(6, 1, 8, 10)
    mixed, targets = Mixing(0.0, 1.0, seeded_generator(5))(images, LABELS, 6)
    order = torch.randperm(6, generator=seeded_generator(5))
    num_cut = 0
    for index in range(6):
        partner = int(order[index])
        is_pasted = mixed[index, 0] != index
        assert set(mixed[index].unique().tolist()) <= {float(index), float(partner)}
        assert float(targets[index, index]) == pytest.approx(
            1 - is_pasted.float().mean().item() if partner != index else 1.0
        )
        assert float(targets[index].sum()) == pytest.approx(1)
        if is_pasted.any():
            num_cut += 1
            rows, columns = is_pasted.any(dim=1).sum(), is_pasted.any(dim=0).sum()
            assert int(rows * columns) == int(is_pasted.sum())
    assert num_cut >= 3


def test_targets_that_are_numbers_are_mixed_as_they_are() -> None:
    images = LABELS.float().reshape(6, 1, 1, 1).expand(6, 1, 2, 2)
    for targets in (LABELS.float(), LABELS.float().reshape(6, 1).expand(6, 3)):
        mixed, result = Mixing(1.0, 0.0, seeded_generator(2))(images, targets, 3)
        assert result.shape == targets.shape
        torch.testing.assert_close(result.reshape(6, -1)[:, 0], mixed[:, 0, 0, 0])


def test_with_both_each_batch_takes_either() -> None:
    images = LABELS.float().reshape(6, 1, 1, 1).expand(6, 1, 8, 8)
    mixing = Mixing(1.0, 1.0, seeded_generator(0))
    kinds = [
        bool((mixing(images, LABELS, 6)[0] == images.round()).flatten(1).any(dim=1).all())
        for _ in range(40)
    ]
    assert 8 < sum(kinds) < 32


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_shares_are_beta_distributed(alpha: float) -> None:
    draws = torch.rand(20_000, generator=seeded_generator(0))
    shares = BetaTable(alpha)(draws)
    assert shares.mean().item() == pytest.approx(0.5, abs=0.01)
    assert shares.var().item() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.03)
    assert BetaTable(alpha)(torch.tensor([0.0, 1 - 2**-24])).isfinite().all()


def test_a_batch_of_one_is_mixed_with_itself() -> None:
    image = torch.rand(1, 3, 8, 8, generator=seeded_generator(0))
    mixed, targets = Mixing(1.0, 0.0, seeded_generator(0))(image, torch.tensor([2]), 4)
    torch.testing.assert_close(mixed, image)
    assert targets.tolist() == [[0, 0, 1, 0]]
