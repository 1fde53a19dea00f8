"""A trained module -> a bundle, proven in a fresh process before anyone sees it.

Shapes: N images, C channels, H height, W width, K classes.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from hpo.export.bundle import (
    MANIFEST,
    MODEL,
    README,
    VALIDATION,
    WEIGHTS,
    Bundle,
    ExportError,
    manifest_text,
    open_bundle,
)
from hpo.export.graph import INPUT, OPSET, OUTPUTS, logits_of, onnx_bytes
from hpo.export.parity import (
    MAX_ACCURACY_DIFFERENCE,
    MAX_DIFFERENCE,
    Reported,
    judge,
    run_gate,
)
from hpo.export.publication import check_destination, publish_folder, staging, write_file
from hpo.export.readme import readme_text

MAX_VALIDATION_BYTES: Final = 16 << 20
"""Of pixels in a bundle; a larger validation split is cut to its first images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The split that the reported accuracy was measured on, whole and in its order."""

    images_NCHW: Tensor  # noqa: N815  # a shape suffix
    """uint8 raw pixels, on the CPU."""
    labels_N: Tensor  # noqa: N815  # a shape suffix
    """int64 class indices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What is said of a model in its bundle."""

    title: str
    """The trial ID."""
    data: str
    """The image set's name."""
    class_labels: tuple[str, ...]
    """For people, by class index."""
    pixel_scale: float
    """The largest raw pixel value."""
    mean: tuple[float, ...]
    """By channel, subtracted from pixels divided by `pixel_scale`; the module does it itself."""
    std: tuple[float, ...]
    """By channel, what the rest is divided by."""
    reported: Reported
    """What must come out again."""
    sections: Mapping[str, Any]
    """Further keys of the manifest, in plain JSON: model, metrics, study, lineage."""
    created_at: str
    """ISO 8601, UTC."""


def export_bundle(
    model: nn.Module, validation: Validation, description: Description, destination: Path
) -> Bundle:
    """Publish a model as a bundle, or leave the destination as it is.

    The bundle is written to a hidden folder beside the destination, run there by a fresh process
    without torch, compared with the module, moved in one step, and opened and run once more.

    Args:
        model: on the CPU, from raw uint8 images_NCHW to float32 logits_NK. Exported in evaluation
            mode; left in the mode it was in.
        validation: what to compare on.
        description: what to say of it.
        destination: a free name, an empty folder, or a bundle, which is replaced.

    Raises:
        ExportError: something else lies at the destination, or the export is not the model.
    """
    destination = destination.absolute()
    check_destination(destination)
    logits_NK = _checked_logits(model, validation, description)
    with staging(destination) as folder:
        staged = folder / "bundle"
        staged.mkdir()
        files = {
            MODEL: onnx_bytes(model, _image_shape(validation), _notes(description)),
            WEIGHTS: _weights(model),
        }
        for name, data in files.items():
            write_file(staged / name, data)
        evidence = folder / "evidence.npz"
        np.savez(
            evidence,
            images=validation.images_NCHW.numpy(),
            labels=validation.labels_N.numpy(),
            logits=logits_NK.numpy(),
        )
        measured = run_gate(staged, evidence)
        judge(measured, description.reported)

        part = _first_part(validation)
        files[VALIDATION] = _validation_bytes(part)
        write_file(staged / VALIDATION, files[VALIDATION])
        rechecked = run_gate(staged)
        files[README] = _readme(validation, part, description, rechecked).encode()
        write_file(staged / README, files[README])
        document = _document(validation, description, measured, rechecked)
        text = manifest_text(document, files)
        write_file(staged / MANIFEST, text.encode())
        publish_folder(staged, destination, _verify)
    return open_bundle(destination)


def _verify(folder: Path) -> None:
    """Open a published bundle and run it where it lies now."""
    expected = open_bundle(folder).manifest["validation"]["num_correct"]
    found = run_gate(folder)["num_correct"]
    if found != expected:
        raise ExportError(
            f"{folder} classifies {found} validation images rightly after it was moved there,"
            f" {expected} before"
        )


def _checked_logits(model: nn.Module, validation: Validation, description: Description) -> Tensor:
    """Return what the module itself computes for the validation images."""
    logits_NK = logits_of(model, validation.images_NCHW)
    wanted = (len(validation.labels_N), len(description.class_labels))
    if tuple(logits_NK.shape) != wanted or logits_NK.dtype != torch.float32:
        raise ExportError(
            f"the model's logits have shape {tuple(logits_NK.shape)} and type {logits_NK.dtype},"
            f" must be {wanted} and torch.float32"
        )
    return logits_NK


def _image_shape(validation: Validation) -> tuple[int, int, int]:
    _, channels, height, width = validation.images_NCHW.shape
    return channels, height, width


def _notes(description: Description) -> dict[str, str]:
    """Return what stays with a model file that is taken out of its bundle."""
    return {
        "trial": description.title,
        "labels": "\n".join(description.class_labels),
        "pixels": f"uint8, 0 to {description.pixel_scale:g}",
    }


def _weights(model: nn.Module) -> bytes:
    return safetensors.torch.save(
        {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    )


def _first_part(validation: Validation) -> Validation:
    """Return as many first images as a bundle takes."""
    num = max(1, MAX_VALIDATION_BYTES // validation.images_NCHW[0].numel())
    return Validation(images_NCHW=validation.images_NCHW[:num], labels_N=validation.labels_N[:num])


def _validation_bytes(part: Validation) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=part.images_NCHW.numpy(), labels=part.labels_N.numpy())
    return buffer.getvalue()


def _readme(
    validation: Validation,
    part: Validation,
    description: Description,
    rechecked: Mapping[str, Any],
) -> str:
    num, num_all = len(part.labels_N), len(validation.labels_N)
    num_correct = rechecked["num_correct"]
    where = "" if num == num_all else f" on all {num_all}, of which these are the first"
    sentence = (
        f"It prints {num_correct / num!r}: {num_correct} of {num} images are right;\n"
        f"the training reported {description.reported.accuracy!r}{where}."
    )
    return readme_text(
        description.title,
        _image_shape(validation),
        int(description.pixel_scale),
        description.class_labels,
        sentence,
    )


def _document(
    validation: Validation,
    description: Description,
    measured: Mapping[str, Any],
    rechecked: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the manifest without the hashes."""
    num_classes = len(description.class_labels)
    output = {"dtype": "float32", "shape": ["batch", num_classes]}
    return {
        "trial": description.title,
        "created_at": description.created_at,
        "labels": list(description.class_labels),
        "input": {
            "name": INPUT,
            "data": description.data,
            "dtype": "uint8",
            "layout": "NCHW",
            "shape": ["batch", *_image_shape(validation)],
            "range": [0, int(description.pixel_scale)],
        },
        "outputs": dict.fromkeys(OUTPUTS, output),
        "normalization": {
            "is_inside_the_model": True,
            "rule": "(pixel / pixel_scale - mean) / std",
            "pixel_scale": description.pixel_scale,
            "mean": list(description.mean),
            "std": list(description.std),
        },
        **description.sections,
        "validation": {
            "num_images": rechecked["num_images"],
            "num_images_of_split": len(validation.labels_N),
            "num_correct": rechecked["num_correct"],
            "accuracy": rechecked["num_correct"] / rechecked["num_images"],
        },
        "parity": {
            "max_abs_difference_allowed": MAX_DIFFERENCE,
            "accuracy_difference_allowed": MAX_ACCURACY_DIFFERENCE,
            "reported_accuracy": description.reported.accuracy,
            "reported_on": description.reported.device,
            **{key: measured[key] for key in ("num_images", "num_correct_of_checkpoint")},
            **{key: measured[key] for key in ("num_ties", "batches", "versions")},
        },
        "export": {
            "opset": OPSET,
            "versions": {
                name: version(name)
                for name in ("torch", "onnx", "onnxscript", "onnxruntime", "numpy")
            },
        },
    }
