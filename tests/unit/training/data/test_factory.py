"""Images from a function of the user's, found in the current folder."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from hpo.training.config import CLASSIFIER_SCHEMA
from hpo.training.data.dataset import load_data
from hpo.training.data.prepare import prepare_data
from hpo.training.task import BadConfigError
from tests.unit.training.data.sets import config

MODULE = """
import numpy as np
import torch

VALUE = 7

class Stripes(torch.utils.data.Dataset):
    classes = ["flat", "steep", "wild"]

    def __len__(self):
        return 60

    def __getitem__(self, index):
        if index >= 60:
            raise IndexError(index)
        image = np.full((4, 5, 3), VALUE + index, np.uint8)
        return image, index % 3

def stripes():
    return Stripes()

def divided():
    images = Stripes()
    images.splits = ["train"] * 40 + ["val"] * 10 + ["test"] * 10
    return images

def broken():
    raise OSError("no disk")

def pairless():
    return [1, 2, 3]

class Torn(Stripes):
    targets = [index % 3 for index in range(60)]

    def __getitem__(self, index):
        if index in (4, 5):
            raise ValueError("torn")
        return torch.full((3, 4, 5), index / 60), index % 3

def torn():
    return Torn()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stand in a folder with a module of the user's."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "my_images.py").write_text(MODULE)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield folder
    sys.modules.pop("my_images", None)


def test_what_a_function_returns_is_read(project: Path, tmp_path: Path) -> None:
    asked = config(data="my_images:stripes")
    assert CLASSIFIER_SCHEMA.problems(asked) == []
    dataset = load_data(asked, tmp_path / "cache", 0, "cpu")
    assert dataset.card.class_labels == ("flat", "steep", "wild")
    assert dataset.card.image_shape == (3, 4, 5)
    for name in ("train", "val", "test"):
        split = dataset[name]
        assert torch.equal((split.images_NCHW[:, 0, 0, 0].long() - 7) % 3, split.labels_N)


def test_a_function_may_give_splits_and_scaled_images(project: Path, tmp_path: Path) -> None:
    asked = config(data="my_images:divided", image_size=3)
    card = prepare_data(asked, tmp_path / "cache", 0)
    assert (card.num_train, card.num_val, card.num_test) == (40, 10, 10)
    assert card.image_shape == (3, 3, 3)


def test_a_function_is_called_when_a_study_begins_and_not_for_each_trial(
    project: Path, tmp_path: Path
) -> None:
    asked = config(data="my_images:stripes")
    first = prepare_data(asked, tmp_path / "cache", 0)
    sys.modules["my_images"].VALUE = 9  # type: ignore[attr-defined]
    assert load_data(asked, tmp_path / "cache", 0, "cpu").card == first
    second = prepare_data(asked, tmp_path / "cache", 0)
    assert second.fingerprint != first.fingerprint
    assert load_data(asked, tmp_path / "cache", 0, "cpu").card == second


def test_an_image_that_a_function_cannot_give_is_a_bad_image(
    project: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadConfigError, match=r"2 image\(s\) .* image 4 \(ValueError: torn\)"):
        prepare_data(config(data="my_images:torn"), tmp_path / "cache", 0)
    skipping = config(data="my_images:torn", on_bad_image="skip")
    card = prepare_data(skipping, tmp_path / "cache", 0)
    assert (card.num_skipped, card.pixel_dtype) == (2, "float32")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_images:broken", "raised OSError: no disk"),
        ("my_images:missing", "raised AttributeError"),
        ("my_images:pairless", "no set of pairs"),
    ],
)
def test_a_function_that_gives_no_images_is_explained(
    project: Path, tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(BadConfigError, match=message):
        prepare_data(config(data=name), tmp_path / "cache", 0)


def test_a_batch_larger_than_what_a_function_gives_is_told_before_the_first_step(
    project: Path, tmp_path: Path
) -> None:
    asked = config(data="my_images:stripes", batch_size=43)
    assert CLASSIFIER_SCHEMA.problems(asked) == []  # only calling it can tell
    with pytest.raises(BadConfigError, match="batch_size is 43, must be at most 42"):
        load_data(asked, tmp_path / "cache", 0, "cpu")


def test_a_module_that_is_nowhere_is_told_before_training(project: Path) -> None:
    (problem,) = CLASSIFIER_SCHEMA.problems(config(data="no_such_module:images"))
    assert problem.key == "data"
    assert f"neither in {project} nor installed" in problem.message
