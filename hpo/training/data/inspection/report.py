"""Everything that `hpo data` tells of a data set, as plain JSON.

Shapes: N images.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from hpo.domain.search_space import Params
from hpo.training.config import ClassifierConfig
from hpo.training.data.inspection.duplicates import Pair, exact_duplicates, near_duplicates
from hpo.training.data.inspection.label_errors import doubtful_labels
from hpo.training.data.inspection.sheet import MOST_IMAGES, write_sheet
from hpo.training.data.prepare import prepare
from hpo.training.data.source import TargetKind
from hpo.training.data.store import Store, open_store
from hpo.training.origin.folder import list_folder
from hpo.training.origin.origin import OriginKind

MOST_NAMED: Final = 50
"""Duplicates of a kind, and doubtful labels, that are named; all are counted."""


def look_at(config: Params, cache_dir: Path, split_seed: int, sheet: Path) -> dict[str, Any]:
    """Describe a data set and draw some of it.

    Images that cannot be decoded are counted here, whatever `on_bad_image` says.

    Args:
        config: the full configuration of the classifier.
        cache_dir: where decoded sets lie.
        split_seed: draws the split.
        sheet: the PNG file to write.

    Raises:
        BadConfigError: the data cannot be used at all.
        DataDamagedError: a cache file cannot be read.
    """
    parsed = ClassifierConfig.parse(config)
    prepared = prepare({**config, "on_bad_image": "skip"}, cache_dir, split_seed, is_fresh=True)
    store, card, split = open_store(prepared.store_path), prepared.card, prepared.indices
    images_NCHW, targets = store.images_NCHW, store.targets
    name_of = _namer(parsed)
    exact = exact_duplicates(images_NCHW, targets, split)
    near = near_duplicates(images_NCHW, targets, split)
    groups = _groups(store, split)
    num_drawn = write_sheet(sheet, images_NCHW, groups, card.pixel_scale)
    return {
        "data": card.name,
        "fingerprint": card.fingerprint,
        "target_kind": card.target_kind,
        "image_shape": list(card.image_shape),
        "num_bytes": images_NCHW.numel() * images_NCHW.element_size(),
        "num_train": card.num_train,
        "num_val": card.num_val,
        "num_test": card.num_test,
        "mean": list(card.mean),
        "std": list(card.std),
        "classes": _classes(store, split),
        "bad_images": [asdict(bad) for bad in store.facts.bad_images[:MOST_NAMED]],
        "num_bad_images": len(store.facts.bad_images),
        "num_exact_duplicates": len(exact),
        "exact_duplicates": [_pair(pair, name_of) for pair in exact[:MOST_NAMED]],
        "num_near_duplicates": len(near),
        "near_duplicates": [_pair(pair, name_of) for pair in near[:MOST_NAMED]],
        "labels": _labels(store, split, name_of),
        "sheet": str(sheet),
        "num_drawn": num_drawn,
    }


def _namer(config: ClassifierConfig) -> Callable[[int], str]:
    """Return what gives an image's name by its index."""
    if config.origin.kind is OriginKind.FOLDER:
        files = list_folder(config.origin.path).files
        return lambda index: files[index]
    return lambda index: f"image {index}"


def _groups(store: Store, split: Mapping[str, Tensor]) -> list[tuple[str, list[int]]]:
    """Return captions and the first training images of each class, or of the whole set."""
    train_N = split["train"]
    if store.facts.target_kind == TargetKind.CLASS:
        labels_N = store.targets[train_N]
        return [
            (name, train_N[labels_N == label][:MOST_IMAGES].tolist())
            for label, name in enumerate(store.facts.class_labels)
        ]
    if store.facts.target_kind == TargetKind.MULTILABEL:
        return [
            (
                name,
                train_N[store.targets[train_N, column] > 0][:MOST_IMAGES].tolist(),
            )
            for column, name in enumerate(store.facts.class_labels)
        ]
    return [("train", train_N[:MOST_IMAGES].tolist())]


def _classes(store: Store, split: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """Return what each split has of each class, or the mean of each target column."""
    rows = []
    for place, name in enumerate(store.facts.class_labels):
        row: dict[str, Any] = {"name": name}
        for part, indices in split.items():
            targets = store.targets[indices]
            if store.facts.target_kind == TargetKind.CLASS:
                row[part] = int((targets == place).sum())
            elif store.facts.target_kind == TargetKind.MULTILABEL:
                row[part] = int((targets[:, place] > 0).sum())
            else:
                row[part] = float(targets[:, place].double().mean())
        rows.append(row)
    return rows


def _labels(
    store: Store, split: Mapping[str, Tensor], name_of: Callable[[int], str]
) -> dict[str, Any] | None:
    """Return which labels are in doubt; None where there are no classes."""
    if store.facts.target_kind != TargetKind.CLASS:
        return None
    where = {int(index): name for name, indices in split.items() for index in indices}
    everything_N = store.targets.new_tensor(sorted(where))
    found = doubtful_labels(store.images_NCHW, store.targets, everything_N)
    names = store.facts.class_labels
    return {
        "num_checked": found.num_checked,
        "accuracy": found.accuracy,
        "num_doubtful": len(found.doubts),
        "doubtful": [
            {
                "name": name_of(doubt.index),
                "split": where[doubt.index],
                "label": names[doubt.label],
                "suggested": names[doubt.suggested],
                "confidence": round(doubt.confidence, 3),
            }
            for doubt in found.doubts[:MOST_NAMED]
        ],
    }


def _pair(pair: Pair, name_of: Callable[[int], str]) -> dict[str, Any]:
    return {
        "splits": list(pair.splits),
        "names": [name_of(index) for index in pair.indices],
        "distance": round(pair.distance, 4),
        "is_label_equal": pair.is_label_equal,
    }
