"""Checkpoints are whole and verified, or they are refused."""

import hashlib
import os
from pathlib import Path

import pytest
import torch

from tracking.checkpoints import (
    CheckpointDamagedError,
    CheckpointUriError,
    FileCheckpointStore,
    StoredCheckpoint,
    weights_digest,
)
from tracking.files import TEMPORARY_SUFFIX, publish_bytes

TENSORS = {
    "weight": torch.arange(12.0).reshape(3, 4).t(),
    "count": torch.tensor(7),
    "stream": torch.arange(5, dtype=torch.uint8),
    "nothing": torch.empty(0, 3),
}
STATE = {"epoch": 3, "value": 0.1 + 0.2, "nested": {"list": [1, None, "text"], "flag": True}}


@pytest.fixture
def store(tmp_path: Path) -> FileCheckpointStore:
    return FileCheckpointStore(tmp_path, "trials/study/4")


@pytest.fixture
def stored(store: FileCheckpointStore) -> StoredCheckpoint:
    return store.put("last-00003", TENSORS, STATE)


def test_what_was_put_comes_back_bit_for_bit(
    store: FileCheckpointStore, stored: StoredCheckpoint
) -> None:
    checkpoint = store.open(stored.uri, stored.sha256)
    assert checkpoint.state == STATE
    assert weights_digest(checkpoint.tensors) == weights_digest(TENSORS)


def test_the_reference_describes_the_file(tmp_path: Path, stored: StoredCheckpoint) -> None:
    data = (tmp_path / stored.uri).read_bytes()
    assert stored.uri.startswith("trials/study/4/last-00003")
    assert stored.sha256 == hashlib.sha256(data).hexdigest()
    assert stored.num_bytes == len(data)


def test_equal_content_is_the_same_file_and_other_content_another(
    store: FileCheckpointStore, stored: StoredCheckpoint
) -> None:
    assert store.put("last-00003", TENSORS, STATE) == stored
    other = store.put("last-00003", TENSORS, STATE | {"epoch": 4})
    assert other.uri != stored.uri
    assert store.list() == sorted([stored.uri, other.uri])


def test_every_flipped_bit_is_noticed(
    tmp_path: Path, store: FileCheckpointStore, stored: StoredCheckpoint
) -> None:
    path = tmp_path / stored.uri
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointDamagedError, match="damaged"):
            store.open(stored.uri, stored.sha256)


@pytest.mark.parametrize("num_bytes_left", [0, 4, 8, 100, -1])
def test_a_truncated_file_is_refused(
    tmp_path: Path, store: FileCheckpointStore, stored: StoredCheckpoint, num_bytes_left: int
) -> None:
    path = tmp_path / stored.uri
    path.write_bytes(path.read_bytes()[:num_bytes_left])
    with pytest.raises(CheckpointDamagedError, match="damaged"):
        store.open(stored.uri, stored.sha256)


def test_a_deleted_checkpoint_is_reported_missing(
    store: FileCheckpointStore, stored: StoredCheckpoint
) -> None:
    store.delete(stored.uri)
    store.delete(stored.uri)
    with pytest.raises(CheckpointDamagedError, match="missing"):
        store.open(stored.uri, stored.sha256)
    assert store.list() == []


def test_a_foreign_file_with_the_right_hash_is_no_checkpoint(
    tmp_path: Path, store: FileCheckpointStore
) -> None:
    data = b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "
    (tmp_path / "foreign.safetensors").write_bytes(data)
    with pytest.raises(CheckpointDamagedError, match="no checkpoint"):
        store.open("foreign.safetensors", hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize(
    "uri",
    [
        "../outside.safetensors",
        "trials/../../outside.safetensors",
        "/etc/outside.safetensors",
        "..\\outside.safetensors",
        "trials/study/4/weights.pt",
        "",
    ],
)
def test_a_uri_that_leaves_the_root_is_refused(store: FileCheckpointStore, uri: str) -> None:
    with pytest.raises(CheckpointUriError):
        store.open(uri, "0" * 64)
    with pytest.raises(CheckpointUriError):
        store.delete(uri)


@pytest.mark.parametrize("folder", ["../elsewhere", "/elsewhere"])
def test_a_folder_that_leaves_the_root_is_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(CheckpointUriError):
        FileCheckpointStore(tmp_path, folder)


def test_a_name_that_leaves_the_folder_is_refused(store: FileCheckpointStore) -> None:
    with pytest.raises(CheckpointUriError):
        store.put("../../../../outside", TENSORS, STATE)


def test_links_are_not_followed(
    tmp_path: Path, store: FileCheckpointStore, stored: StoredCheckpoint
) -> None:
    (tmp_path / "file.safetensors").symlink_to(tmp_path / stored.uri)
    (tmp_path / "folder").symlink_to(tmp_path / "trials")
    linked = stored.uri.replace("trials", "folder")
    for uri in ("file.safetensors", linked):
        with pytest.raises(CheckpointUriError, match="link"):
            store.open(uri, stored.sha256)


def test_a_failed_write_leaves_the_old_content_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    publish_bytes(path, b"old")

    def full_disk(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        publish_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_being_written_is_not_listed(
    tmp_path: Path, store: FileCheckpointStore, stored: StoredCheckpoint
) -> None:
    folder = (tmp_path / stored.uri).parent
    (folder / f".last-00004.safetensors.x{TEMPORARY_SUFFIX}").write_bytes(b"half")
    assert store.list() == [stored.uri]


def test_the_digest_sees_names_values_types_and_shapes_but_not_layout() -> None:
    weight = torch.arange(24.0).reshape(1, 2, 3, 4)
    digest = weights_digest({"a": weight, "b": weight})
    assert digest == weights_digest({"b": weight, "a": weight})
    assert digest == weights_digest(
        {"a": weight.to(memory_format=torch.channels_last), "b": weight}
    )
    changed = weight.clone()
    changed[0, 0, 0, 0] = 1e-30
    others = [
        {"a": changed, "b": weight},
        {"a": weight, "c": weight},
        {"a": weight.double(), "b": weight},
        {"a": weight.reshape(2, 12), "b": weight},
    ]
    assert len({weights_digest(other) for other in others} | {digest}) == 5
