"""Runs an exported model as a stranger would: with numpy and onnxruntime alone.

A script for a fresh process; it imports nothing of this project and writes one JSON object.

    python gate.py BUNDLE             classify the bundle's own validation images
    python gate.py BUNDLE EVIDENCE    compare with the logits of the checkpoint as well

Shapes: N images, C channels, H height, W width, K classes.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

Array = NDArray[Any]

BATCH_SIZES: Final = (1, 3, 64, 512)
"""The last one is what the training evaluates with, and bounds the memory."""
MAX_IMAGES_OF_SMALL_BATCHES: Final = 1000
"""Batches of 1 and 3 take long; they run on this many first images."""
TIE: Final = 1e-4
"""Two top logits nearer than this may change places between two ways to sum in float32."""
TIE_OF_TF32: Final = 2e-2
"""Likewise where a GPU rounded the factors to TF32's 10 bits: logits of 20 move by 20 / 2**10."""


class Model:
    """A model file, opened."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors only
        self._session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, images_NCHW: Array, batch_size: int) -> tuple[Array, Array]:
        """Return logits_NK and probabilities_NK, computed in batches."""
        parts = [
            self._session.run(
                ["logits", "probabilities"], {"images": images_NCHW[start : start + batch_size]}
            )
            for start in range(0, len(images_NCHW), batch_size)
        ]
        logits, probabilities = zip(*parts, strict=True)
        return np.concatenate(logits), np.concatenate(probabilities)


def classify(folder: Path) -> dict[str, Any]:
    """Return how many of the bundle's validation images the model classifies rightly."""
    with np.load(folder / "validation.npz") as data:
        images_NCHW, labels_N = data["images"], data["labels"]
    logits_NK, _ = Model(folder / "model.onnx")(images_NCHW, BATCH_SIZES[-1])
    return {"num_images": len(labels_N), "num_correct": _num_correct(logits_NK, labels_N)}


def compare(folder: Path, evidence: Path) -> dict[str, Any]:
    """Return how far the model is from the checkpoint's logits, by batch size."""
    with np.load(evidence) as data:
        images_NCHW, labels_N, expected_NK = data["images"], data["labels"], data["logits"]
    model = Model(folder / "model.onnx")
    margins_N = _margins(expected_NK)
    batches = []
    for batch_size in BATCH_SIZES:
        num = len(images_NCHW) if batch_size >= 64 else MAX_IMAGES_OF_SMALL_BATCHES
        logits_NK, probabilities_NK = model(images_NCHW[:num], batch_size)
        is_other_N = logits_NK.argmax(axis=1) != expected_NK[:num].argmax(axis=1)
        softmax_NK = _softmax(expected_NK[:num])
        batches.append(
            {
                "batch_size": batch_size,
                "num_images": len(logits_NK),
                "max_abs_difference": _farthest(logits_NK, expected_NK[:num]),
                "max_abs_difference_of_probabilities": _farthest(probabilities_NK, softmax_NK),
                "num_other_top": int(is_other_N.sum()),
                "num_other_top_in_ties": int((is_other_N & (margins_N[:num] < TIE)).sum()),
                "num_correct": _num_correct(logits_NK, labels_N[:num]),
            }
        )
    return {
        "num_images": len(labels_N),
        "num_correct_of_checkpoint": _num_correct(expected_NK, labels_N),
        "num_ties": int((margins_N < TIE).sum()),
        "num_ties_of_tf32": int((margins_N < TIE_OF_TF32).sum()),
        "batches": batches,
    }


def _num_correct(logits_NK: Array, labels_N: Array) -> int:
    return int((logits_NK.argmax(axis=1) == labels_N).sum())


def _farthest(found_NK: Array, expected_NK: Array) -> float | None:
    """Return the largest distance; None, which JSON can hold, when it is not finite."""
    farthest = float(np.abs(found_NK.astype(np.float64) - expected_NK).max())
    return farthest if np.isfinite(farthest) else None


def _margins(logits_NK: Array) -> Array:
    """Return the distance between the two top logits of each image."""
    top_N2 = np.sort(logits_NK, axis=1)[:, -2:]
    return np.asarray(top_N2[:, 1] - top_N2[:, 0])


def _softmax(logits_NK: Array) -> Array:
    exponentials_NK = np.exp(logits_NK - logits_NK.max(axis=1, keepdims=True))
    return np.asarray(exponentials_NK / exponentials_NK.sum(axis=1, keepdims=True))


def main(arguments: list[str]) -> None:
    """Do what the arguments say and write the result to standard output."""
    folder, *evidence = map(Path, arguments)
    result = compare(folder, evidence[0]) if evidence else classify(folder)
    result["has_torch"] = "torch" in sys.modules
    result["versions"] = {"numpy": np.__version__, "onnxruntime": onnxruntime.__version__}
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
