"""Image sets are decoded once, divided fairly and never silently changed."""

import gzip
import os
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from hpo.domain.search_space import Params, Value
from hpo.training.config import CLASSIFIER_SCHEMA, ClassifierConfig
from hpo.training.data import prepare as preparing
from hpo.training.data.card import DataCard
from hpo.training.data.dataset import Dataset, load_data
from hpo.training.data.prepare import prepare_data
from hpo.training.data.source import TEST, TO_DIVIDE, TRAIN, VAL, Source
from hpo.training.data.split import divide
from hpo.training.data.store import DataDamagedError
from hpo.training.task import BadConfigError


def config(**changes: Value) -> Params:
    return CLASSIFIER_SCHEMA.complete({"data": "digits", **changes})


def write_mnist(root: Path, num_train: int, num_test: int, *, is_packed: bool) -> None:
    """Write a fabricated set: image i is filled with 10 times its class, i modulo 10."""
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for prefix, count in (("train", num_train), ("t10k", num_test)):
        classes = [index % 10 for index in range(count)]
        pixels = b"".join(bytes([10 * label]) * 784 for label in classes)
        images = struct.pack(">IIII", 0x803, count, 28, 28) + pixels
        labels = struct.pack(">II", 0x801, count) + bytes(classes)
        for name, data in (("images-idx3", images), ("labels-idx1", labels)):
            path = folder / f"{prefix}-{name}-ubyte"
            if is_packed:
                path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data))
            else:
                path.write_bytes(data)


def same_split(left: Dataset, right: Dataset) -> bool:
    return all(
        torch.equal(left[name].images_NCHW, right[name].images_NCHW)
        for name in ("train", "val", "test")
    )


def test_digits_are_divided_without_loss(cache_dir: Path) -> None:
    dataset = load_data(config(), cache_dir, 0, "cpu")
    card = dataset.card
    assert (card.num_train, card.num_val, card.num_test) == (1257, 270, 270)
    assert [len(dataset[name]) for name in ("train", "val", "test")] == [1257, 270, 270]
    assert card.image_shape == tuple(dataset["train"].images_NCHW.shape[1:]) == (1, 8, 8)
    assert dataset["train"].images_NCHW.dtype == torch.uint8
    assert dataset["train"].images_NCHW.max() == card.pixel_scale == 16


@pytest.mark.parametrize("num_given_test", [0, 50])
def test_splits_are_disjoint_complete_and_stratified(num_given_test: int) -> None:
    labels = torch.tensor([0] * 400 + [1] * 100 + [2] * 33 + [0] * num_given_test)
    given = torch.full((len(labels),), TO_DIVIDE)
    given[533:] = TEST
    split = divide(labels, given, (0.15, 0.2), 3)
    num_test = num_given_test or 107
    assert [len(split[name]) for name in ("train", "val", "test")] == [
        453 - (0 if num_given_test else 107), 80, num_test
    ]  # fmt: skip
    everything = torch.cat(list(split.values())).sort().values
    assert everything.tolist() == list(range(len(labels)))
    counts = labels[:533].bincount()
    assert ((labels[split["val"]].bincount() - 0.15 * counts).abs() < 1).all()
    if num_given_test:
        assert split["test"].tolist() == list(range(533, 583))
    else:
        assert ((labels[split["test"]].bincount() - 0.2 * counts).abs() < 1.1).all()


def test_splits_that_are_given_stay() -> None:
    labels = torch.arange(60) % 3
    given = torch.tensor([TRAIN] * 30 + [VAL] * 20 + [TEST] * 10)
    split = divide(labels, given, (0.15, 0.15), 0)
    assert split["train"].tolist() == list(range(30))
    assert split["val"].tolist() == list(range(30, 50))
    assert split["test"].tolist() == list(range(50, 60))
    without_val = divide(labels, torch.where(given == VAL, TRAIN, given), (0.2, 0.15), 0)
    assert without_val["test"].tolist() == list(range(50, 60))
    assert len(without_val["val"]) == 10
    assert max(without_val["val"].tolist()) < 50


def test_the_split_seed_decides_the_split() -> None:
    labels = torch.arange(200) % 10
    given = torch.full((200,), TO_DIVIDE)
    splits = [divide(labels, given, (0.15, 0.15), seed) for seed in (1, 1, 2)]
    assert torch.equal(splits[0]["val"], splits[1]["val"])
    assert not torch.equal(splits[0]["val"], splits[2]["val"])


def test_a_replicate_redraws_train_and_val_and_keeps_the_test_split(tmp_path: Path) -> None:
    resplit = config(resplit=True)
    datasets = [load_data(resplit, tmp_path, 0, "cpu", seed) for seed in (None, 1, 2, 1)]
    for dataset in datasets:
        assert torch.equal(dataset["test"].images_NCHW, datasets[0]["test"].images_NCHW)
        assert [len(dataset[name]) for name in ("train", "val")] == [1257, 270]
        counts = dataset["val"].labels_N.bincount()
        assert counts.min() >= 26
    assert same_split(datasets[1], datasets[3])
    assert len({dataset.card.fingerprint for dataset in datasets}) == 3
    fixed = [load_data(config(), tmp_path, 0, "cpu", seed) for seed in (None, 1)]
    assert same_split(*fixed)
    assert fixed[0].card == datasets[0].card


def test_another_split_seed_is_another_data_set(cache_dir: Path) -> None:
    cards = [prepare_data(config(), cache_dir, seed) for seed in (0, 0, 1)]
    assert cards[0] == cards[1]
    assert cards[0].fingerprint != cards[2].fingerprint
    larger = prepare_data(config(val_fraction=0.3), cache_dir, 0)
    assert larger.num_val == 539
    assert larger.fingerprint != cards[0].fingerprint


def test_normalisation_is_measured_on_the_training_split_alone(cache_dir: Path) -> None:
    dataset = load_data(config(), cache_dir, 0, "cpu")
    pixels = dataset["train"].images_NCHW.double() / 16
    assert dataset.card.mean == pytest.approx([pixels.mean().item()], abs=1e-12)
    assert dataset.card.std == pytest.approx([pixels.std(correction=0).item()], abs=1e-12)
    everything = torch.cat([dataset[name].images_NCHW for name in ("train", "val", "test")])
    assert abs(dataset.card.mean[0] - everything.double().mean().item() / 16) > 1e-6


def test_a_card_survives_json(cache_dir: Path) -> None:
    card = prepare_data(config(), cache_dir, 0)
    assert DataCard.from_json(card.to_json()) == card
    for text in ('{"name": "digits"}', "[]", "{"):
        with pytest.raises(ValueError, match=r"no data card|Expecting"):
            DataCard.from_json(text)


def test_a_prepared_set_needs_no_decoder(cache_dir: Path) -> None:
    prepare_data(config(), cache_dir, 0)
    code = (
        "import sys; from pathlib import Path;"
        "from hpo.training.config import CLASSIFIER_SCHEMA as S;"
        "from hpo.training.data.dataset import load_data;"
        f"load_data(S.complete({{'data': 'digits'}}), Path({str(cache_dir)!r}), 0, 'cpu');"
        "heavy = ('sklearn', 'torchvision', 'PIL', 'optuna', 'mlflow', 'pandas');"
        "print([m for m in heavy if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"


def test_many_callers_decode_once_and_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = preparing.open_source
    calls: list[object] = []

    def counting(parsed: ClassifierConfig) -> Source:
        calls.append(parsed)
        return original(parsed)

    monkeypatch.setattr(preparing, "open_source", counting)
    with ThreadPoolExecutor(4) as pool:
        cards = list(pool.map(lambda _: prepare_data(config(), tmp_path, 0), range(4)))
    assert len(calls) == 1
    assert len(set(cards)) == 1


def test_a_damaged_cache_is_noticed_before_training(tmp_path: Path) -> None:
    prepare_data(config(), tmp_path, 0)
    (pixels,) = [path for path in tmp_path.glob("*.safetensors") if "split" not in path.name]
    damaged = bytearray(pixels.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    pixels.write_bytes(damaged)
    with pytest.raises(DataDamagedError, match="delete both"):
        load_data(config(), tmp_path, 0, "cpu")
    pixels.write_bytes(damaged[:50])
    with pytest.raises(DataDamagedError, match="cannot be read"):
        load_data(config(), tmp_path, 0, "cpu")


@pytest.mark.parametrize("is_packed", [True, False])
def test_files_in_torchvisions_layout_are_read_and_left_alone(
    tmp_path: Path, is_packed: bool
) -> None:
    root = tmp_path / "data"
    write_mnist(root, num_train=200, num_test=30, is_packed=is_packed)
    files = sorted(root.rglob("*"))
    dataset = load_data(config(data="mnist", data_root=str(root)), tmp_path / "cache", 0, "cpu")
    assert sorted(root.rglob("*")) == files
    assert [len(dataset[name]) for name in ("train", "val", "test")] == [170, 30, 30]
    for name in ("train", "val", "test"):
        split = dataset[name]
        assert torch.equal(split.images_NCHW[:, 0, 5, 7].long(), 10 * split.labels_N)
        assert split.images_NCHW.shape[1:] == (1, 28, 28)
    assert dataset["test"].labels_N.tolist() == [index % 10 for index in range(30)]


def test_missing_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(BadConfigError, match="write download: true"):
        prepare_data(config(data="mnist", data_root=str(tmp_path)), tmp_path / "cache", 0)


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("num_bytes_left", [0, 12, -8])
def test_unreadable_files_are_explained(
    tmp_path: Path, is_packed: bool, num_bytes_left: int
) -> None:
    write_mnist(tmp_path, num_train=20, num_test=10, is_packed=is_packed)
    (images,) = (tmp_path / "MNIST" / "raw").glob("train-images*")
    images.write_bytes(images.read_bytes()[:num_bytes_left])
    with pytest.raises(BadConfigError, match="mnist cannot be read"):
        prepare_data(config(data="mnist", data_root=str(tmp_path)), tmp_path / "cache", 0)


def test_a_split_without_images_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path, num_train=2, num_test=10, is_packed=False)
    with pytest.raises(BadConfigError, match="val split of mnist is empty"):
        prepare_data(config(data="mnist", data_root=str(tmp_path)), tmp_path / "cache", 0)


TEST_DATA_ROOT = os.environ.get("TEST_DATA_ROOT", "")


@pytest.mark.slow
@pytest.mark.skipif(not TEST_DATA_ROOT, reason="TEST_DATA_ROOT names no folder with MNIST")
def test_the_real_mnist_is_read(tmp_path: Path) -> None:
    dataset = load_data(config(data="mnist", data_root=TEST_DATA_ROOT), tmp_path, 0, "cpu")
    assert [len(dataset[name]) for name in ("train", "val", "test")] == [51_000, 9_000, 10_000]
    assert dataset.card.mean == pytest.approx([0.1307], abs=0.001)
    assert dataset.card.std == pytest.approx([0.3081], abs=0.001)
