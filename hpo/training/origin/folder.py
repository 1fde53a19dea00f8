"""The images of a folder, by class and split, in an order that no file system decides."""

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hpo.training.origin.origin import SPLIT_NAMES, BadDataError

IMAGE_SUFFIXES: Final = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"}
)
"""Endings of files that are read as images, in small letters; other files are no images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderListing:
    """The image files of a folder, in a fixed order."""

    root: Path
    class_labels: tuple[str, ...]
    """Names of the class folders, sorted; the place in this list is the class index."""
    files: tuple[str, ...]
    """Relative to `root`, by split, class and name."""
    labels: tuple[int, ...]
    """Class index of each file."""
    splits: tuple[str, ...]
    """`train`, `val` or `test` of each file where sub-folders give it; otherwise all are empty."""


def list_folder(root: Path) -> FolderListing:
    """List a folder of class folders, or of `train`, `val` and `test` folders of class folders.

    Hidden files and files of other kinds do not count; a class folder is searched to any depth.

    Raises:
        BadDataError: it is no such folder, or a class has no image.
    """
    if not root.is_dir():
        raise BadDataError(f"names {root}, which is no folder here; write its path")
    return _list_folder(root, _times(root))


@functools.lru_cache(maxsize=8)
def _list_folder(root: Path, _folder_times: tuple[tuple[str, int], ...]) -> FolderListing:
    tops = _subfolders(root)
    has_splits = {"train", "test"} <= set(tops) <= set(SPLIT_NAMES) or (
        {"train", "val"} == set(tops)
    )
    splits = [name for name in SPLIT_NAMES if name in tops] if has_splits else [""]
    class_labels = _subfolders(root / splits[0])
    if len(class_labels) < 2:
        found = f"only {class_labels[0]}" if class_labels else "none"
        raise BadDataError(
            f"names {root / splits[0]}, where each class is a folder of its images: there are at"
            f" least two, here is {found}"
        )
    files: list[Path] = []
    labels: list[int] = []
    given: list[str] = []
    for split in splits:
        _check_classes(root / split, class_labels, root / splits[0])
        for label, name in enumerate(class_labels):
            found_files = _images(root / split / name)
            if not found_files and split in ("", "train"):
                raise BadDataError(
                    f"names {root}, whose class folder {Path(split, name)} has no image"
                    f" ({', '.join(sorted(IMAGE_SUFFIXES))}); fill it or remove it"
                )
            files += found_files
            labels += [label] * len(found_files)
            given += [split] * len(found_files)
        if split not in given:
            raise BadDataError(f"names {root}, whose folder {split} has no image; fill it")
    return FolderListing(
        root=root,
        class_labels=tuple(class_labels),
        files=tuple(file.relative_to(root).as_posix() for file in files),
        labels=tuple(labels),
        splits=tuple(given),
    )


def _check_classes(folder: Path, class_labels: list[str], reference: Path) -> None:
    unknown = sorted(set(_subfolders(folder)) - set(class_labels))
    if unknown:
        raise BadDataError(
            f"names {folder}, which has the class {unknown[0]} that {reference} lacks;"
            " name the class folders of every split alike"
        )


def _times(root: Path) -> tuple[tuple[str, int], ...]:
    """Return when each folder was changed last: what a kept listing depends on."""
    folders = [root, *(root / name for name in _subfolders(root))]
    for split in SPLIT_NAMES:
        if (root / split).is_dir():
            folders += [root / split / name for name in _subfolders(root / split)]
    return tuple((str(folder), folder.stat().st_mtime_ns) for folder in folders)


def _subfolders(folder: Path) -> list[str]:
    return sorted(
        path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )


def _images(folder: Path) -> list[Path]:
    """Return the images below a class folder in an order that no file system decides."""
    found = [
        Path(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if Path(name).suffix.lower() in IMAGE_SUFFIXES and not name.startswith(".")
    ]
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())
