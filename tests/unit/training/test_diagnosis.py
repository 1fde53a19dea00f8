"""Each rule on a curve that it is for and on its nearest sound neighbour; then whole trainings."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from hpo.domain.trial import Measurement
from hpo.training.diagnosis import diagnose
from hpo.training.finding import Facts, Finding, FindingKind
from hpo.training.task import OutcomeKind
from tests.unit.training.trials import RecordingReporter, run, small_request
from tracking.checkpoints import FileCheckpointStore

CHANCE = math.log(10)
TEN = Facts(num_classes=10, val_counts=(27,) * 10, predicted_counts=(27,) * 10)

RECORDED = json.loads((Path(__file__).parent / "recorded_curves.json").read_text())


def curve(**metrics: Sequence[float]) -> list[Measurement]:
    names, columns = list(metrics), list(metrics.values())
    return [
        Measurement(
            epoch=epoch, examples_seen=epoch, metrics=dict(zip(names, values, strict=True))
        )
        for epoch, values in enumerate(zip(*columns, strict=True), 1)
    ]


def kinds(measurements: Sequence[Measurement], facts: Facts = TEN) -> list[FindingKind]:
    return [finding.kind for finding in diagnose(measurements, facts)]


def text_of(measurements: Sequence[Measurement], facts: Facts = TEN) -> str:
    (finding,) = diagnose(measurements, facts)
    return finding.text


FALLING = [1.5, 0.8, 0.5, 0.4, 0.3, 0.25, 0.2, 0.18]


def test_a_training_without_measurements_says_nothing() -> None:
    assert kinds([]) == []


def test_a_sound_curve_says_nothing() -> None:
    assert kinds(curve(train_loss=FALLING, val_loss=FALLING, lr=[1e-3] * 8)) == []


def test_overfitting_names_the_epoch_the_numbers_and_the_order_of_remedies() -> None:
    val = [1.0, 0.6, 0.5, 0.52, 0.6, 0.7, 0.8, 0.9]
    text = text_of(curve(train_loss=FALLING, val_loss=val))
    assert text.startswith("since epoch 3: val_loss rose from 0.5 to 0.8 while train_loss fell")
    order = ["more data", "augment", "weight_decay", "width", "patience"]
    assert [text.index(word) for word in order] == sorted(text.index(word) for word in order)


@pytest.mark.parametrize(
    "val",
    [
        [1.0, 0.6, 0.5, 0.52, 0.5, 0.53, 0.51, 0.54],  # within noise
        [1.0, 0.6, 0.5, 0.48, 0.46, 0.45, 0.44, 0.9],  # one bad epoch at the end
        [0.05, 0.02, 0.01, 0.011, 0.012, 0.014, 0.015, 0.016],  # one image, near 0
    ],
)
def test_a_validation_loss_that_wavers_is_no_overfitting(val: list[float]) -> None:
    assert kinds(curve(train_loss=FALLING, val_loss=val)) == []


def test_a_failure_is_told_with_the_spikes_of_the_gradient_before_it() -> None:
    facts = Facts(num_classes=10, failure="train_loss is nan in batch 3 of epoch 5")
    norms = [2.0, 2.1, 30.0, 400.0]
    text = text_of(
        curve(train_loss=[2.0, 1.9, 1.9, 2.2], grad_norm_max=norms, lr=[0.5] * 4), facts
    )
    assert text.startswith("train_loss is nan in batch 3 of epoch 5")
    assert "30 in epoch 3, 400 in epoch 4 (2 at first)" in text
    assert "0.5" in text


def test_a_loss_that_rises_without_overflowing_is_diverging_too() -> None:
    losses = [2.0, 1.2, 1.0, 1.4, 2.2, 4.0]
    assert kinds(curve(train_loss=losses, lr=[0.1] * 6)) == [FindingKind.DIVERGED]
    assert kinds(curve(train_loss=[2.0, 1.2, 1.0, 1.3, 1.1, 0.9], lr=[0.1] * 6)) == []


def test_a_dead_rate_is_told_by_the_update_and_by_the_loss() -> None:
    flat = [2.31, 2.31, 2.309, 2.309]
    rates = [1e-9] * 4
    facts = Facts(num_classes=10, initial_loss=2.31)
    dead = curve(train_loss=flat, lr=rates, update_ratio=[1e-9] * 4, grad_norm=[1.0] * 4)
    assert kinds(dead, facts) == [FindingKind.DEAD]
    assert "1e-09 of their size" in text_of(dead, facts)
    moving = curve(train_loss=flat, lr=rates, update_ratio=[1e-3] * 4, grad_norm=[1.0] * 4)
    assert kinds(moving, facts) == [FindingKind.NOT_CONVERGING]
    learning = curve(
        train_loss=FALLING[:4], lr=rates, update_ratio=[1e-9] * 4, grad_norm=[1.0] * 4
    )
    assert kinds(learning, facts) == []


def test_a_gradient_of_0_means_frozen() -> None:
    frozen = curve(train_loss=[2.3] * 4, lr=[0.1] * 4, grad_norm=[0.0] * 4)
    assert "frozen" in text_of(frozen)


@pytest.mark.parametrize(
    ("losses", "ratio", "advice"),
    [
        ([2.9, 2.7, 2.6, 2.5], 1e-3, "still falls: raise lr"),
        ([2.31, 2.30, 2.31, 2.30], 1e-2, "a tenth of lr"),
        ([2.31, 2.30, 2.31, 2.30], 5e-5, "raise lr"),
    ],
)
def test_what_does_not_converge_is_told_in_which_direction_to_go(
    losses: list[float], ratio: float, advice: str
) -> None:
    text = text_of(curve(train_loss=losses, lr=[1e-4] * 4, update_ratio=[ratio] * 4))
    assert advice in text
    assert "guessing gives 2.3" in text


def test_what_only_trains_is_told_apart_from_what_carries_over() -> None:
    train = [2.3, 2.0, 1.5, 1.0, 0.6]
    shuffled = curve(train_loss=train, val_loss=[2.32, 2.4, 2.8, 3.3, 4.0], val_accuracy=[0.1] * 5)
    assert kinds(shuffled) == [FindingKind.SHUFFLED]
    learned = curve(train_loss=train, val_loss=[2.2, 2.0, 1.8, 1.7, 1.6], val_accuracy=[0.4] * 5)
    assert kinds(learned) == []


def test_the_share_of_the_largest_class_counts_as_chance() -> None:
    train, val = [2.0, 1.5, 1.0], [2.35, 2.5, 2.9]
    most = Facts(num_classes=10, val_counts=(180, *(10,) * 9), predicted_counts=(27,) * 10)
    measured = curve(train_loss=train, val_loss=val, val_accuracy=[0.66] * 3)
    assert kinds(measured, most) == [FindingKind.SHUFFLED]
    assert kinds(measured, TEN) == []


def test_a_plateau_needs_a_rate_that_still_moves_the_weights() -> None:
    stuck = [2.0, 1.5, 1.2, 1.0, *[0.8, 0.801, 0.799, 0.8, 0.802, 0.8]]
    assert kinds(curve(train_loss=stuck, lr=[1e-2] * 10)) == [FindingKind.PLATEAU]
    ended = curve(train_loss=stuck, lr=[*[1e-2] * 4, *[1e-4] * 6])
    assert kinds(ended) == []
    assert "since epoch 5" in text_of(curve(train_loss=stuck, lr=[1e-2] * 10))


def test_a_class_that_is_never_predicted_is_named() -> None:
    facts = Facts(
        num_classes=3,
        class_labels=("cat", "dog", "eel"),
        val_counts=(30, 30, 12),
        predicted_counts=(40, 32, 0),
    )
    falling = curve(train_loss=[0.9, 0.5, 0.3])
    assert "eel (12 images)" in text_of(falling, facts)
    rare = Facts(num_classes=3, val_counts=(30, 30, 4), predicted_counts=(32, 32, 0))
    assert kinds(falling, rare) == []
    assert kinds(falling[:2], facts) == []  # pruned before it could learn every class
    assert kinds(curve(train_loss=[1.0, 0.95, 0.9]), facts) == []


def test_memory_that_grows_every_epoch_is_told_with_its_rate() -> None:
    held = [1.0e9, 1.5e9, *(1.6e9 + 0.1e9 * epoch for epoch in range(6))]
    text = text_of(curve(train_loss=FALLING, peak_memory_bytes=held))
    assert "by 100 MB an epoch" in text
    settled = [1.0e9, 1.5e9, 1.6e9, *[1.61e9] * 5]
    assert kinds(curve(train_loss=FALLING, peak_memory_bytes=settled)) == []


def test_waiting_for_examples_counts_once_it_takes_seconds() -> None:
    waits = {"train_loss": FALLING, "compute_s": [6.0] * 8}
    streaming = Facts(num_classes=10, is_streaming=True)
    assert "loader.workers" in text_of(curve(**waits, data_s=[4.0] * 8), streaming)
    assert kinds(curve(**waits, data_s=[4.0] * 8), TEN) == []  # augmentation on the device
    assert "augment" in text_of(curve(**waits, data_s=[9.0] * 8), TEN)
    assert kinds(curve(**waits, data_s=[1.0] * 8), streaming) == []
    short = curve(train_loss=FALLING, compute_s=[0.1] * 8, data_s=[0.1] * 8)
    assert kinds(short, streaming) == []


def test_what_was_measured_in_an_earlier_attempt_alone_is_left_out() -> None:
    waits = curve(train_loss=FALLING, compute_s=[6.0] * 8, data_s=[4.0] * 8)
    first = curve(train_loss=[2.0, 1.8])
    facts = Facts(num_classes=10, is_streaming=True)
    assert kinds([*first, *waits], facts) == [FindingKind.LOADER]


@pytest.mark.parametrize(
    ("loss", "is_told"), [(2.30, False), (3.7, False), (5.0, True), (math.nan, True), (0.5, True)]
)
def test_the_loss_before_the_first_update_is_held_to_guessing(loss: float, is_told: bool) -> None:
    facts = Facts(num_classes=10, initial_loss=loss)
    assert kinds([], facts) == [FindingKind.INITIAL_LOSS] * is_told


@pytest.mark.parametrize(
    ("mean", "std", "is_own", "is_told"),
    [
        (0.02, 0.98, True, False),
        (0.31, 0.38, True, True),  # digits of 0 to 1, never normalised
        (-0.81, 2.66, True, True),  # the same, normalised twice
        (33.0, 78.0, True, True),  # MNIST of 0 to 255
        (0.0, 0.0, True, False),  # a channel of one colour
        (-1.5, 1.3, False, False),  # MNIST through ImageNet's constants
        (450.0, 1100.0, False, True),  # bytes through constants for 0 to 1
        (math.nan, math.nan, True, True),
    ],
)
def test_what_reaches_the_network_is_held_to_0_and_1(
    mean: float, std: float, is_own: bool, is_told: bool
) -> None:
    facts = Facts(input_mean=(mean,), input_std=(std,), has_own_normalisation=is_own)
    assert kinds([], facts) == [FindingKind.NORMALISATION] * is_told


FLAT = [2.31, 2.30, 2.31, 2.30]
KNOWN = Facts(num_classes=10, initial_loss=2.31)


def dead(ratio: float, fall: float = 0.0) -> list[Measurement]:
    losses = [2.31, 2.31, 2.31, 2.31 * (1 - fall)]
    return curve(train_loss=losses, lr=[1e-6] * 4, update_ratio=[ratio] * 4)


def rising(end: float) -> list[Measurement]:
    return curve(train_loss=[2.0, 1.2, 0.3, 0.3, end])


@pytest.mark.parametrize(
    ("kind", "measurements", "facts", "is_told"),
    [
        (FindingKind.DEAD, dead(0.8e-5), KNOWN, True),
        (FindingKind.DEAD, dead(1.3e-5), KNOWN, False),
        (FindingKind.DEAD, dead(1e-9, fall=0.015), KNOWN, True),
        (FindingKind.DEAD, dead(1e-9, fall=0.025), KNOWN, False),
        (FindingKind.DIVERGED, rising(0.95), TEN, True),
        (FindingKind.DIVERGED, rising(0.8), TEN, False),
        (FindingKind.NORMALISATION, [], Facts(input_mean=(0.6,), input_std=(1.0,)), True),
        (FindingKind.NORMALISATION, [], Facts(input_mean=(0.4,), input_std=(1.0,)), False),
        (FindingKind.NORMALISATION, [], Facts(input_mean=(0.0,), input_std=(2.2,)), True),
        (FindingKind.NORMALISATION, [], Facts(input_mean=(0.0,), input_std=(1.8,)), False),
    ],
)
def test_a_threshold_lies_where_its_reason_puts_it(
    kind: FindingKind, measurements: list[Measurement], facts: Facts, is_told: bool
) -> None:
    assert (kind in kinds(measurements, facts)) is is_told


@pytest.mark.parametrize(("norm", "is_spike"), [(4.0, False), (6.0, True)])
def test_a_gradient_five_times_the_usual_is_a_spike(norm: float, is_spike: bool) -> None:
    facts = Facts(num_classes=10, failure="train_loss is nan")
    text = text_of(curve(train_loss=[2.0, 1.9], grad_norm=[1.0, norm]), facts)
    assert ("after gradient norms of" in text) is is_spike


@pytest.mark.parametrize(
    ("ratio", "advice"), [(0.8e-4, "of their size"), (1.3e-4, "a tenth of lr")]
)
def test_small_updates_ask_for_a_larger_rate(ratio: float, advice: str) -> None:
    measured = curve(train_loss=FLAT, lr=[1e-2] * 4, update_ratio=[ratio] * 4)
    assert advice in text_of(measured)


def test_a_finding_is_read_back_from_its_note() -> None:
    for kind in FindingKind:
        finding = Finding(kind=kind, text="since epoch 3: worse: much")
        assert Finding.parse(str(finding)) == finding
        assert kind.tag.removeprefix("hpo.diagnosis.").isidentifier()
    assert Finding.parse("not deterministic: epoch 3 trained again") is None
    assert Finding.parse("a remark") is None


# --- recorded curves of the shipped sweeps


def recorded(entry: Mapping[str, list[float]]) -> list[Measurement]:
    return curve(**entry)


@pytest.mark.parametrize("name", sorted(RECORDED["good"]))
def test_good_configurations_of_the_shipped_sweeps_raise_no_alarm(name: str) -> None:
    assert kinds(recorded(RECORDED["good"][name])) == []


@pytest.mark.parametrize("name", sorted(RECORDED["bad"]))
def test_a_learning_rate_a_hundred_times_too_small_is_told(name: str) -> None:
    (finding,) = diagnose(recorded(RECORDED["bad"][name]), TEN)
    assert finding.kind is FindingKind.NOT_CONVERGING
    assert "raise lr (the highest was 1e-05)" in finding.text


# --- whole trainings with one planted fault each


def findings(
    cache_dir: Path, store: FileCheckpointStore, **config: object
) -> dict[FindingKind, str]:
    settings = {"model": "mlp", "augment": 0.0, "epochs": 10, "batch_size": 64, **config}
    outcome, _ = run(small_request(cache_dir, settings), store)
    parsed = [Finding.parse(text) for text in outcome.findings]
    return {finding.kind: finding.text for finding in parsed if finding is not None}


def digits_with(labels: np.ndarray[tuple[int], np.dtype[np.int64]], tmp_path: Path) -> str:
    from sklearn.datasets import load_digits

    file = tmp_path / "digits.npz"
    images = (load_digits().images * 15).astype(np.uint8)
    np.savez(file, images=images, labels=labels)
    return f"arrays:{file}"


def true_labels() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    from sklearn.datasets import load_digits

    labels: np.ndarray[tuple[int], np.dtype[np.int64]] = load_digits().target.astype(np.int64)
    return labels


def test_a_sound_training_finds_nothing(cache_dir: Path, store: FileCheckpointStore) -> None:
    assert findings(cache_dir, store) == {}


def test_shuffled_labels_are_found(
    cache_dir: Path, store: FileCheckpointStore, tmp_path: Path
) -> None:
    shuffled = np.random.default_rng(0).permutation(true_labels())
    found = findings(
        cache_dir,
        store,
        data=digits_with(shuffled, tmp_path),
        epochs=30,
        width=64,
        dropout=0.0,
        lr=1e-3,
    )
    assert list(found) == [FindingKind.SHUFFLED]
    assert "labels do not belong to the images" in found[FindingKind.SHUFFLED]


def test_labels_as_they_were_are_not(
    cache_dir: Path, store: FileCheckpointStore, tmp_path: Path
) -> None:
    data = digits_with(true_labels(), tmp_path)
    assert findings(cache_dir, store, data=data) == {}


def test_a_rate_of_next_to_nothing_is_found(cache_dir: Path, store: FileCheckpointStore) -> None:
    assert list(findings(cache_dir, store, lr=1e-10)) == [FindingKind.DEAD]


@pytest.mark.parametrize("rate", [1e2, 1e12])
def test_a_huge_rate_is_found(cache_dir: Path, store: FileCheckpointStore, rate: float) -> None:
    found = findings(cache_dir, store, lr=rate, schedule="constant", warmup_epochs=0)
    assert set(found) <= {FindingKind.DIVERGED, FindingKind.NOT_CONVERGING}
    assert found


def test_a_class_that_has_no_training_image_is_never_predicted(
    cache_dir: Path, store: FileCheckpointStore, tmp_path: Path
) -> None:
    """Class weights of 0 hide class 3 from the training, not from validation."""
    weights = ", ".join("0" if digit == 3 else "1" for digit in range(10))
    found = findings(cache_dir, store, class_weights=weights)
    assert list(found) == [FindingKind.NEVER_PREDICTED]
    assert "taken for 3 (" in found[FindingKind.NEVER_PREDICTED]


def test_looking_at_the_beginning_moves_nothing(
    cache_dir: Path, store: FileCheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = small_request(cache_dir, {"epochs": 2})
    looked, _ = run(request, store)
    monkeypatch.setattr("hpo.training.tasks.classifier.write_beginning", lambda _trainee: None)
    unlooked, _ = run(request, store)
    assert looked.weights_sha256 == unlooked.weights_sha256


def test_a_resumed_trial_is_diagnosed_over_its_whole_curve(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    request = small_request(cache_dir, {"epochs": 6, "lr": 1e-10, "model": "mlp"})
    whole, _ = run(request, store)
    _, told = run(request, store, RecordingReporter(leave_after=5))
    rest, _ = run(request, store, resume=told.newest("last"))
    assert whole.kind is rest.kind is OutcomeKind.FINISHED
    assert rest.findings == whole.findings
    assert len(rest.findings) == 1
