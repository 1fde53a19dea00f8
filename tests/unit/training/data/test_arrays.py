"""Array files: their kinds of targets, their splits, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hpo.training.config import CLASSIFIER_SCHEMA
from hpo.training.data.dataset import load_data
from hpo.training.data.prepare import prepare_data
from hpo.training.data.sources.arrays import open_arrays
from hpo.training.task import BadConfigError
from tests.unit.training.data.sets import config, write_arrays

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (40, 5, 6), dtype=np.uint8)
LABELS = np.arange(40) % 4


def test_images_and_labels_stay_together(tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "set.npz", images=IMAGES, labels=LABELS)
    dataset = load_data(config(data=f"arrays:{path}"), tmp_path / "cache", 0, "cpu")
    assert dataset.card.class_labels == ("0", "1", "2", "3")
    for name in ("train", "val", "test"):
        for image_CHW, label in zip(
            dataset[name].images_NCHW, dataset[name].labels_N, strict=True
        ):
            (place,) = np.flatnonzero((image_CHW.numpy() == IMAGES).all(axis=(1, 2)))
            assert LABELS[place] == label


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((40, 5, 6), (1, 5, 6)),
        ((40, 3, 5, 6), (3, 5, 6)),
        ((40, 5, 6, 3), (3, 5, 6)),
        ((40, 5, 6, 1), (1, 5, 6)),
    ],
)
def test_every_usual_layout_is_read(
    tmp_path: Path, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    images = RNG.integers(0, 256, shape, dtype=np.uint8)
    source = open_arrays(write_arrays(tmp_path / "set.npz", images=images, labels=LABELS))
    image_CHW = source.read(7).numpy()
    assert image_CHW.shape == expected
    as_rows = images.transpose(0, 3, 1, 2) if len(shape) == 4 and shape[3] < 4 else images
    assert (image_CHW == as_rows[7]).all()


@pytest.mark.parametrize(
    ("labels", "kind", "shape"),
    [
        (LABELS, "class", ()),
        (RNG.random(40), "regression", (1,)),
        (RNG.random((40, 2)), "regression", (2,)),
        (RNG.integers(0, 2, (40, 3)), "multilabel", (3,)),
        (RNG.random((40, 3)) > 0.5, "multilabel", (3,)),
        (RNG.dirichlet((1, 1, 1), 40), "soft", (3,)),
    ],
)
def test_type_and_shape_tell_the_kind_of_target(
    tmp_path: Path, labels: Any, kind: str, shape: tuple[int, ...]
) -> None:
    path = write_arrays(tmp_path / "set.npz", images=IMAGES, labels=labels)
    dataset = load_data(config(data=f"arrays:{path}"), tmp_path / "cache", 0, "cpu")
    assert dataset.card.target_kind == kind
    assert dataset.card.num_classes == (shape[0] if shape else 4)
    train = dataset["train"]
    assert train.labels_N.shape[1:] == shape
    assert train.labels_N.dtype == (torch.int64 if kind == "class" else torch.float32)
    (batch,) = train.batches([(0, 3)], torch.tensor([5, 0, 2]))
    assert torch.equal(batch.labels_N, train.labels_N[[5, 0, 2]])
    assert bool(dataset.card.class_counts) == (kind == "class")


def test_float_images_are_taken_as_they_are(tmp_path: Path) -> None:
    images = RNG.normal(3.0, 2.0, (40, 3, 4, 4)).astype(np.float32)
    path = write_arrays(tmp_path / "set.npz", images=images, labels=LABELS)
    dataset = load_data(config(data=f"arrays:{path}"), tmp_path / "cache", 0, "cpu")
    card, train = dataset.card, dataset["train"].images_NCHW
    assert (card.pixel_scale, card.pixel_dtype, train.dtype) == (1.0, "float32", torch.float32)
    assert card.mean == pytest.approx(train.double().mean(dim=(0, 2, 3)).tolist())
    assert card.std == pytest.approx(train.double().std(dim=(0, 2, 3), correction=0).tolist())


@pytest.mark.parametrize(
    "split",
    [
        np.array([0] * 20 + [1] * 12 + [2] * 8),
        np.array(["train"] * 20 + ["val"] * 12 + ["test"] * 8),
    ],
)
def test_given_splits_are_kept(tmp_path: Path, split: Any) -> None:
    path = write_arrays(tmp_path / "set.npz", images=IMAGES, labels=LABELS, split=split)
    dataset = load_data(config(data=f"arrays:{path}"), tmp_path / "cache", 0, "cpu")
    assert torch.equal(dataset["val"].images_NCHW[:, 0], torch.from_numpy(IMAGES[20:32]))
    assert torch.equal(dataset["test"].images_NCHW[:, 0], torch.from_numpy(IMAGES[32:]))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES}, "holds images and lacks the array labels"),
        ({"images": IMAGES, "labels": LABELS[:-1]}, "has 40 images and 39 entries in labels"),
        ({"images": IMAGES.astype(np.int64), "labels": LABELS}, "no uint8 and no floats"),
        ({"images": IMAGES[0], "labels": LABELS}, "must be N x H x W"),
        ({"images": IMAGES, "labels": LABELS.astype(str)}, "whose labels have shape"),
        ({"images": IMAGES, "labels": LABELS, "split": LABELS[:3]}, "3 entries in split"),
    ],
)
def test_what_the_header_tells_is_told_before_training(
    tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    path = write_arrays(tmp_path / "set.npz", **arrays)
    (problem,) = CLASSIFIER_SCHEMA.problems(config(data=f"arrays:{path}"))
    assert problem.key == "data"
    assert message in problem.message
    with pytest.raises(BadConfigError, match="data names"):
        prepare_data(config(data=f"arrays:{path}"), tmp_path / "cache", 0)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": np.zeros(40, np.int64)}, "has images of one class"),
        ({"labels": LABELS - 1}, r"image 0 has label -1, out of range"),
        ({"labels": LABELS * 2}, "class 1 has no image"),
        ({"labels": LABELS, "class_names": np.array(["a", "b", "c"])}, "label 3, out of range"),
        ({"labels": RNG.integers(0, 9, (40, 3))}, "not all 0 or 1"),
        ({"labels": np.full(40, np.nan)}, "labels hold nan"),
        ({"labels": LABELS, "split": np.full(40, 7)}, "split holds 7"),
        (
            {"labels": RNG.random((40, 2)), "class_names": np.array(["a"])},
            "2 target columns and 1",
        ),
    ],
)
def test_labels_that_cannot_be_trained_on_are_refused(
    tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    path = write_arrays(tmp_path / "set.npz", images=IMAGES, **arrays)
    with pytest.raises(BadConfigError, match=message):
        prepare_data(config(data=f"arrays:{path}"), tmp_path / "cache", 0)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    for content in (b"", b"PK", b"text"):
        path.write_bytes(content)
        (problem,) = CLASSIFIER_SCHEMA.problems(config(data=f"arrays:{path}"))
        assert "which is no .npz file" in problem.message
    (problem,) = CLASSIFIER_SCHEMA.problems(config(data="arrays:none.npz"))
    assert "which is no file here" in problem.message


def test_balanced_sampling_needs_classes(tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "set.npz", images=IMAGES, labels=RNG.random(40))
    with pytest.raises(BadConfigError, match="sampling is balanced, which needs classes"):
        load_data(config(data=f"arrays:{path}", sampling="balanced"), tmp_path / "c", 0, "cpu")
