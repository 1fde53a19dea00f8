"""What was planted in a data set is found, and little else is."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from hpo.training.data.inspection.duplicates import exact_duplicates, near_duplicates
from hpo.training.data.inspection.features import features, nearest
from hpo.training.data.inspection.label_errors import doubtful_labels
from hpo.training.data.inspection.report import look_at
from hpo.training.data.inspection.sheet import COLUMNS, write_sheet
from hpo.training.task import BadConfigError
from tests.unit.training.data.sets import config, write_arrays, write_folder

DIGITS = load_digits()
IMAGES = torch.from_numpy(DIGITS.images * 15).to(torch.uint8).unsqueeze(1)
LABELS = torch.from_numpy(DIGITS.target)


def thirds(num_images: int) -> dict[str, torch.Tensor]:
    one = num_images // 3
    return {
        "train": torch.arange(one),
        "val": torch.arange(one, 2 * one),
        "test": torch.arange(2 * one, num_images),
    }


def test_planted_copies_are_found_and_nothing_else() -> None:
    images, labels = IMAGES.clone(), LABELS.clone()
    images[1500], images[700], images[20] = images[5], images[6], images[9]
    labels[1500], labels[700] = labels[5], (labels[6] + 1) % 10
    found = exact_duplicates(images, labels, thirds(1797))
    assert {(pair.splits, pair.indices, pair.is_label_equal) for pair in found} == {
        (("train", "test"), (5, 1500), True),
        (("train", "val"), (6, 700), False),
    }


def test_planted_variations_are_found_and_nothing_else() -> None:
    images, generator = IMAGES.clone(), torch.Generator().manual_seed(0)
    noise = torch.randint(-3, 4, images.shape[1:], generator=generator)
    images[1500] = (images[5].int() + noise).clamp(0, 255).to(torch.uint8)
    images[700] = (images[6] * 0.7 + 20).to(torch.uint8)
    images[1700] = images[9]  # equal pixels are another matter
    found = near_duplicates(images, LABELS, thirds(1797))
    assert {pair.indices for pair in found} == {(5, 1500), (6, 700)}
    assert all(0 < pair.distance < 0.1 for pair in found)


def test_images_without_contrast_are_no_duplicates() -> None:
    images = torch.zeros(30, 1, 8, 8, dtype=torch.uint8)
    assert near_duplicates(images, torch.arange(30), thirds(30)) == []


def test_the_nearest_other_image_is_found() -> None:
    rows = features(IMAGES, range(300))
    distances, places = nearest(rows, rows, 2, is_same=True)
    expected = torch.cdist(rows, rows).fill_diagonal_(9)
    assert torch.allclose(distances[:, 0], expected.min(dim=1).values, atol=1e-3)
    assert not (places == torch.arange(300).unsqueeze(1)).any()


def test_wrong_labels_are_found() -> None:
    wrong = torch.arange(7, 1797, 60)
    labels = LABELS.clone()
    labels[wrong] = (labels[wrong] + 3) % 10
    found = doubtful_labels(IMAGES, labels, torch.arange(1797))
    named = {doubt.index for doubt in found.doubts}
    planted = set(wrong.tolist())
    assert len(planted & named) >= 0.8 * len(planted)
    assert len(named - planted) <= 8
    right = [d for d in found.doubts if d.index in planted and d.suggested == LABELS[d.index]]
    assert len(right) >= 0.8 * len(planted)
    assert found.num_checked == 1797
    assert len(doubtful_labels(IMAGES, LABELS, torch.arange(1797)).doubts) <= 5


def test_the_sheet_shows_each_class_below_the_other(tmp_path: Path) -> None:
    images = torch.zeros(130, 1, 32, 32, dtype=torch.uint8)
    images[100:] = 200
    path = tmp_path / "sheet.png"
    num_drawn = write_sheet(path, images, [("a", range(100)), ("b", range(100, 130))], 255.0)
    assert num_drawn == 130
    with Image.open(path) as image:
        sheet = np.asarray(image)
    assert sheet.shape == (2 * 16 + 6 * 33, COLUMNS * 33, 3)
    assert (sheet[16 + 5, 5] == 0).all()
    assert (sheet[16 + 4 * 33 + 16 + 5, 5] == 200).all()
    many = [(str(label), list(range(100))) for label in range(100)]
    assert write_sheet(path, images, many, 255.0) == 5000


def test_the_report_counts_every_class_and_names_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    root = write_folder(
        tmp_path / "set",
        {"train/a": 20, "train/b": 12, "val/a": 6, "val/b": 5, "test/a": 7, "test/b": 6},
        lambda _label, _index: rng.integers(0, 256, (8, 8), dtype=np.uint8),
    )
    (root / "test" / "a" / "copy.png").write_bytes((root / "train/b/003.png").read_bytes())
    (root / "val" / "b" / "torn.png").write_bytes(b"torn")
    sheet = tmp_path / "sheet.png"
    found = look_at(config(data=f"folder:{root}"), tmp_path / "cache", 0, sheet)
    assert found["classes"] == [
        {"name": "a", "train": 20, "val": 6, "test": 8},
        {"name": "b", "train": 12, "val": 5, "test": 6},
    ]
    assert found["num_bad_images"] == 1
    assert found["bad_images"][0]["name"] == str(root / "val" / "b" / "torn.png")
    assert found["num_exact_duplicates"] == 1
    (pair,) = found["exact_duplicates"]
    assert pair["names"] == ["train/b/003.png", "test/a/copy.png"]
    assert not pair["is_label_equal"]
    assert found["num_drawn"] == 32
    with Image.open(sheet) as image:
        assert image.format == "PNG"


@pytest.mark.parametrize("columns", [1, 3])
def test_data_without_classes_is_reported_without_labels(tmp_path: Path, columns: int) -> None:
    rng = np.random.default_rng(0)
    path = write_arrays(
        tmp_path / "set.npz",
        images=rng.random((60, 8, 8)).astype(np.float32),
        labels=rng.normal(5.0, 1.0, (60, columns)),
    )
    found = look_at(config(data=f"arrays:{path}"), tmp_path / "cache", 0, tmp_path / "s.png")
    assert found["labels"] is None
    assert found["target_kind"] == "regression"
    assert [row["train"] for row in found["classes"]] == pytest.approx([5.0] * columns, abs=0.6)


def test_data_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfigError, match="no folder here"):
        look_at(config(data="folder:none"), tmp_path / "cache", 0, tmp_path / "s.png")
