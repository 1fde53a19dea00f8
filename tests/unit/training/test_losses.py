"""Losses are those of their formulas, whatever the batch is divided into."""

import math

import pytest
import torch
from torch.nn import functional

from hpo.training.config import ClassifierConfig
from hpo.training.data.source import TargetKind
from hpo.training.losses import Loss, LossKind, build_loss, class_weights
from hpo.training.task import BadConfigError

LOGITS_NK = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.5, 1.0]])
LABELS_N = torch.tensor([0, 1])
P = [
    [math.exp(v) / sum(math.exp(w) for w in row) for v in row]
    for row in ([2.0, 0.0, -1.0], [0.5, 0.5, 1.0])
]
"""The softmax of the logits, by hand."""


def by_hand(q: list[list[float]], *, gamma: float = 0.0, weights: tuple[float, ...] = (1, 1, 1)):
    """Return -sum w q (1 - p)^gamma log p over both examples."""
    return -sum(
        weights[k] * q[n][k] * (1 - P[n][k]) ** gamma * math.log(P[n][k])
        for n in range(2)
        for k in range(3)
    )


ONE_HOT = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def total(kind: LossKind, targets: torch.Tensor = LABELS_N, **options: object) -> float:
    loss = Loss(kind=kind, **options)  # type: ignore[arg-type]
    return float(loss.total(LOGITS_NK, targets))


def test_cross_entropy_is_the_sum_over_examples() -> None:
    assert total("cross_entropy") == pytest.approx(by_hand(ONE_HOT), abs=1e-6)


def test_label_smoothing_spreads_its_share_over_all_classes() -> None:
    e = 0.1
    smoothed = [[(1 - e) * q + e / 3 for q in row] for row in ONE_HOT]
    for kind in ("cross_entropy", "focal"):
        found = total(kind, label_smoothing=e, focal_gamma=0.0)
        assert found == pytest.approx(by_hand(smoothed), abs=1e-6)


def test_focal_loss_plays_down_what_is_easy() -> None:
    assert total("focal", focal_gamma=2.0) == pytest.approx(by_hand(ONE_HOT, gamma=2), abs=1e-6)
    assert total("focal", focal_gamma=0.0) == pytest.approx(by_hand(ONE_HOT), abs=1e-6)


def test_class_weights_are_in_the_order_of_the_classes() -> None:
    weights = (3.0, 0.5, 7.0)
    expected = -3.0 * math.log(P[0][0]) - 0.5 * math.log(P[1][1])
    for kind in ("cross_entropy", "focal"):
        found = total(kind, class_weights_K=torch.tensor(weights), focal_gamma=0.0)
        assert found == pytest.approx(expected, abs=1e-6)


def test_mixed_targets_are_probabilities() -> None:
    q = [[0.7, 0.3, 0.0], [0.0, 0.4, 0.6]]
    soft_NK = torch.tensor(q)
    assert total("cross_entropy", soft_NK) == pytest.approx(by_hand(q), abs=1e-6)
    assert total("focal", soft_NK) == pytest.approx(by_hand(q, gamma=2), abs=1e-6)
    entropy = -sum(v * math.log(v) for row in q for v in row if v)
    assert total("kl_div", soft_NK) == pytest.approx(by_hand(q) - entropy, abs=1e-6)


def test_bce_judges_each_label_alone() -> None:
    targets_NK = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    kind = TargetKind.MULTILABEL
    sigmoids = [[1 / (1 + math.exp(-float(v))) for v in row] for row in LOGITS_NK]
    for e in (0.0, 0.2):
        expected = 0.0
        for n in range(2):
            for k in range(3):
                y = float(targets_NK[n, k]) * (1 - e) + e / 2
                expected -= (y * math.log(sigmoids[n][k])
                             + (1 - y) * math.log(1 - sigmoids[n][k])) / 3  # fmt: skip
        found = total("bce", targets_NK, target_kind=kind, label_smoothing=e)
        assert found == pytest.approx(expected, abs=1e-5)


def test_distances_are_of_the_outputs_themselves() -> None:
    targets_NK = torch.tensor([[1.0, 0.0, 2.0], [0.5, 0.0, 1.0]])
    differences = [1.0, 0.0, -3.0, 0.0, 0.5, 0.0]
    kind = TargetKind.REGRESSION
    expected = {
        "mse": sum(d * d for d in differences) / 3,
        "l1": sum(abs(d) for d in differences) / 3,
        "huber": (0.5 * 1 + 1 * (3 - 0.5) + 0.5 * 0.25) / 3,
    }
    for name, value in expected.items():
        assert total(name, targets_NK, target_kind=kind) == pytest.approx(value)  # type: ignore[arg-type]
    one_hot = functional.one_hot(LABELS_N, 3).float()
    assert total("mse") == pytest.approx(float((LOGITS_NK - one_hot).square().mean(dim=1).sum()))


def test_evaluation_measures_without_smoothing_weights_and_focus() -> None:
    strange = Loss(
        kind="focal", label_smoothing=0.3, class_weights_K=torch.tensor([1.0, 2.0, 3.0])
    )
    assert float(strange.plain.total(LOGITS_NK, LABELS_N)) == pytest.approx(by_hand(ONE_HOT))
    assert Loss(kind="mse", target_kind=TargetKind.REGRESSION).plain.kind == "mse"


def test_a_loss_in_16_bits_is_taken_in_32() -> None:
    assert Loss(kind="cross_entropy").total(LOGITS_NK.bfloat16(), LABELS_N).dtype is torch.float32


def test_automatic_weights_are_inverse_to_the_counts_and_1_on_average() -> None:
    labels_N = torch.tensor([2, 2, 2, 0, 0, 0, 0, 1])
    weights_K = class_weights("auto", labels_N, TargetKind.CLASS)
    assert weights_K is not None
    assert weights_K.tolist() == pytest.approx([8 / (3 * 4), 8 / (3 * 1), 8 / (3 * 3)])
    assert float(weights_K[labels_N].mean()) == pytest.approx(1)


def test_written_weights_are_taken_as_they_are() -> None:
    labels_N = torch.tensor([0, 1, 2])
    weights_K = class_weights("1, 2.5,0", labels_N, TargetKind.CLASS)
    assert weights_K is not None
    assert weights_K.tolist() == [1, 2.5, 0]
    assert class_weights("none", labels_N, TargetKind.CLASS) is None
    with pytest.raises(BadConfigError, match="has 2 numbers, must have 3, one for each class"):
        class_weights("1, 2", labels_N, TargetKind.CLASS)


def test_a_loss_that_does_not_fit_the_targets_is_refused() -> None:
    config = ClassifierConfig.parse({"data": "digits", "loss": "cross_entropy"})
    with pytest.raises(BadConfigError, match="does not fit targets of kind regression; write one"):
        build_loss(config, TargetKind.REGRESSION, torch.zeros(3, 1))
