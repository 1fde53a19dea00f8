"""A folder of image files is listed, decoded once, and decoded again when its content changes."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from hpo.training.config import CLASSIFIER_SCHEMA, ClassifierConfig
from hpo.training.data import prepare as preparing
from hpo.training.data.dataset import load_data
from hpo.training.data.prepare import prepare_data
from hpo.training.data.source import BadImageError, Source
from hpo.training.data.sources.folder import FolderSource
from hpo.training.origin.folder import list_folder
from hpo.training.task import BadConfigError
from tests.unit.training.data.sets import config, write_folder


def data_problem(root: Path) -> str:
    found = CLASSIFIER_SCHEMA.problems(config(data=f"folder:{root}"))
    assert [problem.key for problem in found] == ["data"]
    return found[0].message


def test_classes_are_the_sorted_names_of_the_folders(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "pets", {"dog": 9, "cat": 12, "ant": 10})
    (root / ".hidden").mkdir()
    (root / "cat" / "notes.txt").write_text("no image")
    card = prepare_data(config(data=f"folder:{root}"), tmp_path / "cache", 0)
    assert card.class_labels == ("ant", "cat", "dog")
    assert card.num_train + card.num_val + card.num_test == 31
    assert card.image_shape == (1, 6, 8)
    assert sum(card.class_counts) == card.num_train


def test_every_image_keeps_its_class(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "pets", {"ant": 20, "cat": 20, "dog": 20})
    dataset = load_data(config(data=f"folder:{root}"), tmp_path / "cache", 0, "cpu")
    for name in ("train", "val", "test"):
        split = dataset[name]
        assert torch.equal(split.images_NCHW[:, 0, 2, 3].long() // 50, split.labels_N)


def test_given_folders_are_the_splits(tmp_path: Path) -> None:
    counts = {"train/a": 8, "train/b": 8, "val/a": 2, "val/b": 3, "test/a": 4, "test/b": 1}
    root = write_folder(tmp_path / "set", counts)
    card = prepare_data(config(data=f"folder:{root}"), tmp_path / "cache", 0)
    assert (card.num_train, card.num_val, card.num_test) == (16, 5, 5)
    shutil.rmtree(root / "val")
    card = prepare_data(config(data=f"folder:{root}"), tmp_path / "cache", 0)
    assert (card.num_train, card.num_val, card.num_test) == (14, 2, 5)


def test_the_reader_gives_one_image_as_it_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    root = write_folder(tmp_path, {"a": 1, "b": 1}, lambda _label, _index: pixels)
    source = FolderSource(list_folder(root))
    assert torch.equal(source.read(1).permute(1, 2, 0), torch.from_numpy(pixels))
    assert source.name(1) == str(root / "b" / "000.png")


def test_grey_and_colour_files_become_one_kind(tmp_path: Path) -> None:
    root = write_folder(tmp_path, {"a": 2, "b": 2})
    assert FolderSource(list_folder(root)).read(0).shape == (1, 6, 8)
    Image.fromarray(np.zeros((6, 8, 3), np.uint8)).save(root / "b" / "colour.png")
    assert FolderSource(list_folder(root)).read(0).shape == (3, 6, 8)


def test_sixteen_bits_are_scaled_and_a_turned_photograph_is_turned(tmp_path: Path) -> None:
    def deep(label: int, index: int) -> Any:
        return np.full((4, 4), 256 * 200, np.uint16)

    source = FolderSource(list_folder(write_folder(tmp_path / "deep", {"a": 1, "b": 1}, deep)))
    assert source.read(0).unique().tolist() == [200]
    root = write_folder(tmp_path / "turned", {"a": 1, "b": 1})
    image = Image.fromarray(np.zeros((6, 8), np.uint8))
    exif = image.getexif()
    exif[0x0112] = 6  # to be turned by a quarter
    image.save(root / "a" / "000.jpg", exif=exif)
    assert FolderSource(list_folder(root)).read(0).shape == (1, 8, 6) or (
        FolderSource(list_folder(root)).read(1).shape == (1, 8, 6)
    )


def test_images_are_scaled_and_cropped_at_the_centre(tmp_path: Path) -> None:
    def halves(label: int, index: int) -> Any:
        pixels = np.zeros((20, 40), np.uint8)
        pixels[:, 20:] = 200
        return pixels

    root = write_folder(tmp_path / "set", {"a": 10, "b": 10}, halves)
    dataset = load_data(config(data=f"folder:{root}", image_size=10), tmp_path / "cache", 0, "cpu")
    images_NCHW = dataset["val"].images_NCHW
    assert images_NCHW.shape[1:] == (1, 10, 10)
    assert images_NCHW[0, 0, :, :4].unique().tolist() == [0]
    assert images_NCHW[0, 0, :, 6:].unique().tolist() == [200]


def test_images_of_several_sizes_ask_for_one(tmp_path: Path) -> None:
    root = write_folder(
        tmp_path / "set", {"a": 4, "b": 4}, lambda label, _: np.zeros((6, 6 + label), np.uint8)
    )
    with pytest.raises(BadConfigError, match=r"000.png is 1 x 6 x 7.*write image_size"):
        prepare_data(config(data=f"folder:{root}"), tmp_path / "cache", 0)
    assert list((tmp_path / "cache").glob("*.tmp")) == []


def counting(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    calls: list[object] = []
    original = preparing.open_source

    def counted(parsed: ClassifierConfig) -> Source:
        calls.append(parsed)
        return original(parsed)

    monkeypatch.setattr(preparing, "open_source", counted)
    return calls


def test_a_changed_image_is_decoded_again_and_an_unchanged_folder_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counting(monkeypatch)
    root = write_folder(tmp_path / "set", {"a": 10, "b": 10}, suffix=".bmp")
    asked = config(data=f"folder:{root}")
    first = prepare_data(asked, tmp_path / "cache", 0)
    assert prepare_data(asked, tmp_path / "cache", 0) == first
    changed = root / "a" / "004.bmp"
    stat = changed.stat()
    with Image.open(changed) as image:
        pixels = np.array(image)
    pixels[0, 0] ^= 1
    Image.fromarray(pixels).save(changed)
    os.utime(changed, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # a copy that keeps times
    assert changed.stat().st_size == stat.st_size
    assert len(calls) == 1
    assert prepare_data(asked, tmp_path / "cache", 0).fingerprint != first.fingerprint
    assert len(calls) == 2


def test_a_copy_elsewhere_and_a_touched_file_are_not_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counting(monkeypatch)
    root = write_folder(tmp_path / "set", {"a": 10, "b": 10})
    first = prepare_data(config(data=f"folder:{root}"), tmp_path / "cache", 0)
    copy = shutil.copytree(root, tmp_path / "copy")
    (root / "a" / "000.png").touch()
    for place in (root, copy):
        card = prepare_data(config(data=f"folder:{place}"), tmp_path / "cache", 0)
        assert card.fingerprint == first.fingerprint
    assert len(calls) == 1


def test_a_renamed_class_is_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counting(monkeypatch)
    root = write_folder(tmp_path / "set", {"a": 10, "b": 10})
    prepare_data(config(data=f"folder:{root}"), tmp_path / "cache", 0)
    (root / "a").rename(root / "aa")
    card = prepare_data(config(data=f"folder:{root}"), tmp_path / "cache", 0)
    assert card.class_labels == ("aa", "b")
    assert len(calls) == 2


def with_bad_images(root: Path) -> Path:
    write_folder(root, {"a": 10, "b": 10})
    (root / "a" / "003.png").write_bytes((root / "a" / "003.png").read_bytes()[:-30])
    (root / "b" / "007.png").write_bytes(b"")
    return root


def test_bad_images_are_named_and_counted(tmp_path: Path) -> None:
    root = with_bad_images(tmp_path / "set")
    with pytest.raises(BadConfigError) as caught:
        prepare_data(config(data=f"folder:{root}"), tmp_path / "cache", 0)
    assert str(caught.value).startswith("2 image(s) cannot be decoded: ")
    for name in ("a/003.png (", "b/007.png (", "on_bad_image: skip"):
        assert name in str(caught.value)
    with pytest.raises(BadImageError, match=r"OSError|SyntaxError"):
        FolderSource(list_folder(root)).read(3)


def test_bad_images_are_skipped_when_asked(tmp_path: Path) -> None:
    root = with_bad_images(tmp_path / "set")
    skipping = config(data=f"folder:{root}", on_bad_image="skip")
    dataset = load_data(skipping, tmp_path / "cache", 0, "cpu")
    assert dataset.card.num_skipped == 2
    assert sum(len(dataset[name]) for name in ("train", "val", "test")) == 18
    seen = torch.cat([dataset[name].images_NCHW[:, 0, 0, 0] for name in ("train", "val", "test")])
    assert sorted(seen.tolist()) == sorted({*range(10), *range(50, 60)} - {3, 57})
    assert any("2 image(s) cannot be decoded" in remark for remark in dataset.remarks)
    with pytest.raises(BadConfigError, match="cannot be decoded"):
        prepare_data(config(data=f"folder:{root}"), tmp_path / "cache", 0)


def test_a_folder_without_a_readable_image_is_refused(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "set", {"a": 3, "b": 3})
    for file in root.rglob("*.png"):
        file.write_bytes(b"nothing")
    with pytest.raises(BadConfigError, match="no image can be decoded"):
        prepare_data(config(data=f"folder:{root}", on_bad_image="skip"), tmp_path / "cache", 0)


def test_what_a_listing_tells_is_told_before_training(tmp_path: Path) -> None:
    assert "which is no folder here" in data_problem(tmp_path / "none")
    one = write_folder(tmp_path / "one", {"a": 3})
    assert "at least two, here is only a" in data_problem(one)
    (one / "b").mkdir()
    assert "whose class folder b has no image" in data_problem(one)
    assert "here is none" in data_problem(one / "a")
    split = write_folder(tmp_path / "split", {"train/a": 3, "train/b": 3, "test/a": 2})
    assert CLASSIFIER_SCHEMA.problems(config(data=f"folder:{split}", batch_size=2)) == []
    write_folder(split, {"test/c": 2})
    assert "has the class c that" in data_problem(split)


def test_a_batch_larger_than_a_folder_is_told_before_training(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "set", {"a": 10, "b": 10})
    (problem,) = CLASSIFIER_SCHEMA.problems(config(data=f"folder:{root}", batch_size=64))
    assert problem.key == "batch_size"
    assert "must be at most 14" in problem.message


def test_a_class_whose_images_are_all_bad_is_refused(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "set", {"a": 40, "b": 2})
    for file in (root / "b").iterdir():
        file.write_bytes(b"nothing")
    with pytest.raises(BadConfigError, match=r"class b .* no image in the training split"):
        prepare_data(config(data=f"folder:{root}", on_bad_image="skip"), tmp_path / "cache", 0)
