"""Models to export, and fresh processes that read what came out."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hpo.domain.objective import At, Objective
from hpo.export.bundle import README
from hpo.export.exporter import Description, Validation
from hpo.export.parity import Reported
from hpo.training.config import CLASSIFIER_SCHEMA, ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.data.dataset import load_data
from hpo.training.determinism import STREAM_NAMES, RandomStreams
from hpo.training.models.classifier import build_model
from hpo.training.tasks.classifier import load_classifier
from tests.unit.training.trials import run, small_request
from tracking.checkpoints import FileCheckpointStore


@dataclass(frozen=True, kw_only=True)
class Exportable:
    """The first arguments of `export_bundle`."""

    model: nn.Module
    validation: Validation
    description: Description


def describe(card: DataCard, accuracy: float, device: str = "cpu") -> Description:
    return Description(
        title="digits/0",
        data=card.name,
        class_labels=card.class_labels,
        pixel_scale=card.pixel_scale,
        mean=card.mean,
        std=card.std,
        reported=Reported(accuracy=accuracy, device=device),
        sections={"metrics": {"val_accuracy": accuracy}, "study": {"verdict": "holds"}},
        created_at="2026-01-02T03:04:05+00:00",
    )


def trained(model: str, cache_dir: Path, store: FileCheckpointStore) -> Exportable:
    """Return a classifier after an epoch on digits, read from its checkpoint `best`."""
    request = small_request(
        cache_dir,
        {"model": model, "epochs": 1, "warmup_epochs": 0, "augment": 0.0, "batch_size": 64},
        Objective(metric="val_loss", at=At.LAST),
    )
    _, reporter = run(request, store)
    best = reporter.newest("best")
    dataset = load_data(request.config, cache_dir, request.split_seed, "cpu")
    return Exportable(
        model=load_classifier(request.config, dataset.card, store, best.uri, best.sha256),
        validation=Validation(
            images_NCHW=dataset["val"].images_NCHW, labels_N=dataset["val"].labels_N
        ),
        description=describe(dataset.card, reporter.measurements[-1].metrics["val_accuracy"]),
    )


def drawn(model: str, image_shape: tuple[int, int, int], num_images: int = 70) -> Exportable:
    """Return an untrained classifier of noise, which needs no data set."""
    generator = torch.Generator().manual_seed(0)
    channels = image_shape[0]
    card = DataCard(
        name="noise",
        fingerprint="0" * 64,
        num_train=1,
        num_val=num_images,
        num_test=1,
        num_classes=5,
        class_labels=("a", "b", "c", "d", "e"),
        image_shape=image_shape,
        pixel_scale=255.0,
        mean=(0.45, 0.5, 0.55)[:channels],
        std=(0.2, 0.25, 0.3)[:channels],
    )
    config = CLASSIFIER_SCHEMA.complete({"data": "cifar10", "model": model, "width": 4})
    classifier = build_model(
        ClassifierConfig.parse(config), card, RandomStreams(dict.fromkeys(STREAM_NAMES, 0))
    ).eval()
    images_NCHW = torch.randint(
        0, 256, (num_images, *image_shape), dtype=torch.uint8, generator=generator
    )
    labels_N = torch.randint(0, 5, (num_images,), generator=generator)
    with torch.inference_mode():
        hits_N = classifier(images_NCHW).argmax(dim=1) == labels_N
    return Exportable(
        model=classifier,
        validation=Validation(images_NCHW=images_NCHW, labels_N=labels_N),
        description=describe(card, int(hits_N.sum()) / num_images),
    )


class ChangedByExport(nn.Module):
    """Computes something else while it is exported, as a wrong exporter would make it."""

    def __init__(self, model: nn.Module, change: float) -> None:
        super().__init__()
        self.model = model
        self.change = change

    def forward(self, images_NCHW: Tensor) -> Tensor:
        logits_NK: Tensor = self.model(images_NCHW)
        return logits_NK + self.change if torch.compiler.is_exporting() else logits_NK


class DecidesByNumbers(nn.Module):
    """Takes one way or another by what it computes, which no fixed graph can."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images_NCHW: Tensor) -> Tensor:
        logits_NK: Tensor = self.model(images_NCHW)
        return logits_NK if float(logits_NK.sum()) > 0 else 2 * logits_NK


class OtherWeights(nn.Module):
    """Classifies as another training would: each class is taken for the next one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images_NCHW: Tensor) -> Tensor:
        logits_NK: Tensor = self.model(images_NCHW)
        return logits_NK.roll(1, dims=1)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def in_fresh_process(code: str, folder: Path) -> str:
    """Run code in a folder, by a process that knows neither torch nor this project."""
    process = subprocess.run(
        [sys.executable, "-P", "-c", f"{code}\nimport sys\nassert 'torch' not in sys.modules"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def accuracy_by_readme(folder: Path) -> float:
    """Do what the bundle's page says and return what that prints."""
    blocks = re.findall(r"```python\n(.*?)```", (folder / README).read_text(), re.DOTALL)
    assert len(blocks) == 1
    assert len(blocks[0].splitlines()) <= 10
    return float(in_fresh_process(blocks[0], folder))


def shapes_by_batch(folder: Path, image_shape: tuple[int, int, int]) -> dict[str, Any]:
    """Return the outputs' shapes and types at several batch sizes, in a fresh process."""
    code = f"""
import json
import numpy as np
import onnxruntime
session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
found = {{}}
for batch in (1, 3, 64):
    images = np.zeros((batch, *{image_shape}), dtype=np.uint8)
    outputs = session.run(["logits", "probabilities"], {{"images": images}})
    found[batch] = [[list(o.shape), str(o.dtype)] for o in outputs]
print(json.dumps(found))
"""
    shapes: dict[str, Any] = json.loads(in_fresh_process(code, folder))
    return shapes
