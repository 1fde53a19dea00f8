"""One epoch makes the updates of a plain loop, whatever it is divided into."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hpo.training.averaging import WeightAverage
from hpo.training.data.resident import Split
from hpo.training.determinism import seeded_generator
from hpo.training.epoch import TrainedEpoch, train_epoch
from hpo.training.losses import Loss
from hpo.training.metrics import DivergedError
from hpo.training.plan import Batching
from hpo.training.precision import Precision
from tests.unit.training.parts import split, trainee
from tests.unit.training.trials import RecordingReporter, SteppingClock, undrawn

NUM_IMAGES = 43
"""Batches of 16 leave 11: in 4 parts that is 4, 4 and 3."""


def data() -> Split:
    generator = seeded_generator(5)
    return Split(
        images_NCHW=torch.rand(NUM_IMAGES, 1, 3, 3, generator=generator),
        labels_N=torch.randint(4, (NUM_IMAGES,), generator=generator),
    )


def network() -> nn.Module:
    made = undrawn(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 4))
    )
    generator = seeded_generator(3)
    for weight in made.parameters():
        with torch.no_grad():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.5)
    return made


def run(model: nn.Module, **changes: Any) -> TrainedEpoch:
    changes = {"batching": Batching(size=16)} | changes
    made = trainee(model, data(), split(4), **changes)
    return train_epoch(made, 1, RecordingReporter(), SteppingClock())


def plain_loop(
    model: nn.Module, weights_K: Tensor | None = None, max_norm: float = 0.0
) -> tuple[list[float], list[float]]:
    """Train an epoch as one would by hand; return losses and gradient norms by update."""
    train = data()
    order_N = torch.randperm(NUM_IMAGES, generator=seeded_generator(0))
    losses, norms = [], []
    for start in range(0, NUM_IMAGES, 16):
        indices = order_N[start : start + 16]
        outputs = model(train.images_NCHW[indices])
        labels_N = train.labels_N[indices]
        each = functional.cross_entropy(outputs, labels_N, weight=weights_K, reduction="none")
        loss = each.mean()
        model.zero_grad()
        loss.backward()
        grads = torch.cat([w.grad.flatten() for w in model.parameters() if w.grad is not None])
        norms.append(float(grads.norm()))
        if max_norm:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.grad is not None:
                    weight.sub_(0.1 * weight.grad)
        losses.append(float(loss.detach()))
    return losses, norms


def distance(first: nn.Module, second: nn.Module) -> float:
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


def test_an_epoch_is_that_of_a_plain_loop() -> None:
    ours, theirs = network(), network()
    trained = run(ours)
    losses, norms = plain_loop(theirs)
    assert distance(ours, theirs) < 1e-6
    assert trained.grad_norm == pytest.approx(sum(norms) / 3, rel=1e-5)
    assert trained.grad_norm_max == pytest.approx(max(norms), rel=1e-5)
    expected = (16 * losses[0] + 16 * losses[1] + 11 * losses[2]) / NUM_IMAGES
    assert trained.loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("accumulate", [2, 4, 16])
def test_parts_add_up_to_the_batch_also_in_the_short_last_one(accumulate: int) -> None:
    whole, parts = network(), network()
    trained = run(whole)
    in_parts = run(parts, batching=Batching(size=16, accumulate=accumulate))
    assert distance(whole, parts) < 1e-6
    assert in_parts.loss == pytest.approx(trained.loss, rel=1e-6)
    assert in_parts.accuracy == trained.accuracy
    assert in_parts.grad_norm_max == pytest.approx(trained.grad_norm_max, rel=1e-5)


def test_parts_add_up_with_weighted_classes_too() -> None:
    weights_K = torch.tensor([0.2, 1.0, 3.0, 0.5])
    loss = Loss(kind="cross_entropy", class_weights_K=weights_K)
    theirs, ours, parts = network(), network(), network()
    plain_loop(theirs, weights_K)
    run(ours, loss=loss)
    run(parts, loss=loss, batching=Batching(size=16, accumulate=4))
    assert distance(ours, theirs) < 1e-6
    assert distance(parts, theirs) < 1e-6


def test_the_gradient_is_clipped_as_torch_clips_it() -> None:
    ours, theirs = network(), network()
    trained = run(ours, clip_norm=0.05)
    _, norms = plain_loop(theirs, max_norm=0.05)
    assert distance(ours, theirs) < 1e-6
    assert trained.grad_norm_max == pytest.approx(max(norms), rel=1e-5)  # before clipping
    assert min(norms) > 0.05


def test_the_update_ratio_is_that_of_the_last_update() -> None:
    model = network()
    trained = run(model)
    again = network()
    losses, _ = plain_loop(again)
    assert len(losses) == 3
    # the last gradient is still there, and plain descent moves by it
    change = torch.cat(
        [(0.1 * w.grad).flatten() for w in again.parameters() if w.grad is not None]
    )
    before = torch.cat([w.detach().flatten() for w in again.parameters()]) + change
    assert trained.update_ratio == pytest.approx(float(change.norm() / before.norm()), rel=1e-4)


def test_the_average_follows_every_update() -> None:
    model = network()
    average = WeightAverage(model, 0.5, 1)
    run(model, average=average)
    last = [w.detach().clone() for w in model.parameters()]
    with average.applied():
        moved = [float((w - old).detach().abs().max()) for w, old in
                 zip(model.parameters(), last, strict=True)]  # fmt: skip
    assert max(moved) > 1e-4


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_16_bits_train_almost_alike_and_leave_weights_in_32(kind: Any) -> None:
    full, half = network(), network()
    trained = run(full)
    in_half = run(half, precision=Precision(kind, "cpu"))
    assert in_half.loss == pytest.approx(trained.loss, rel=0.02)
    assert in_half.grad_norm == pytest.approx(trained.grad_norm, rel=0.05)
    assert 0 < distance(full, half) < 5e-3
    assert all(weight.dtype is torch.float32 for weight in half.parameters())


def test_an_overflow_in_fp16_skips_the_update_and_halves_the_scale() -> None:
    model, before = network(), network()
    precision = Precision("fp16", "cpu")
    precision.load_state_dict(precision.state_dict() | {"scale": 2.0**40})
    trained = run(model, precision=precision)
    assert distance(model, before) == 0
    assert (trained.grad_norm, trained.update_ratio) == (0.0, 0.0)
    assert precision.state_dict()["scale"] == 2.0**37


def test_gradients_that_are_broken_at_any_scale_diverge() -> None:
    precision = Precision("fp16", "cpu")
    precision.load_state_dict(precision.state_dict() | {"scale": 0.5})

    def break_it(images_NCHW: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return images_NCHW * 3e38, labels

    with pytest.raises(DivergedError, match="in batch 1 of epoch 1"):
        run(network(), precision=precision, augment=break_it)
