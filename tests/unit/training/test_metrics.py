"""Scores are those of scikit-learn and of hand computation."""

import pytest
import torch
from sklearn.metrics import f1_score
from torch import Tensor, nn

from hpo.training.data.resident import Split
from hpo.training.data.source import TargetKind
from hpo.training.losses import Loss
from hpo.training.metrics import evaluate, num_correct


class Given(nn.Module):
    """Returns the pixels as its outputs."""

    def forward(self, images_NCHW: Tensor) -> Tensor:
        return images_NCHW.flatten(1)


def test_macro_f1_is_scikit_learns() -> None:
    generator = torch.Generator().manual_seed(0)
    outputs_NK = torch.randn(1100, 5, generator=generator)
    labels_N = torch.randint(3, (1100,), generator=generator)  # two classes never occur
    outputs_NK[:, 4] = -9  # and one of those is never predicted
    scores = evaluate(
        Given(), Split(images_NCHW=outputs_NK[:, :, None, None], labels_N=labels_N), "val"
    )
    predicted = outputs_NK.argmax(dim=1)
    expected = f1_score(labels_N.numpy(), predicted.numpy(), average="macro", zero_division=0)
    assert scores.macro_f1 == pytest.approx(expected)
    assert scores.accuracy == pytest.approx(float((predicted == labels_N).double().mean()))
    assert scores.predicted_counts == tuple(torch.bincount(predicted, minlength=5).tolist())
    assert scores.actual_counts == tuple(torch.bincount(labels_N, minlength=5).tolist())


def test_labels_judged_alone_are_right_by_their_sign() -> None:
    outputs_NK = torch.tensor([[1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])
    targets_NK = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    loss = Loss(kind="bce", target_kind=TargetKind.MULTILABEL)
    scores = evaluate(
        Given(), Split(images_NCHW=outputs_NK[:, :, None, None], labels_N=targets_NK), "val", loss
    )
    assert scores.accuracy == pytest.approx(4 / 6)
    assert scores.macro_f1 == pytest.approx((0.5 + 1.0) / 2)


def test_numbers_are_right_within_a_half() -> None:
    outputs_NK = torch.tensor([[1.4], [2.6]])
    targets_NK = torch.tensor([[1.0], [2.0]])
    loss = Loss(kind="mse", target_kind=TargetKind.REGRESSION)
    scores = evaluate(
        Given(), Split(images_NCHW=outputs_NK[:, :, None, None], labels_N=targets_NK), "val", loss
    )
    assert (scores.accuracy, scores.macro_f1) == (0.5, 0.0)
    assert scores.loss == pytest.approx((0.16 + 0.36) / 2)


def test_a_mixed_image_is_right_when_its_larger_part_is_named() -> None:
    outputs_NK = torch.tensor([[0.1, 2.0], [3.0, 0.0]])
    assert float(num_correct(outputs_NK, torch.tensor([[0.4, 0.6], [0.3, 0.7]]))) == 1.0
