"""What runs in the process that exports: training, which loads the model, meets export here."""

import json
from pathlib import Path
from typing import Any

from hpo.domain.trial import FailureKind
from hpo.execution.channel import Channel
from hpo.execution.entry_point import FailedTrialError
from hpo.export.bundle import Bundle, ExportError
from hpo.export.exporter import Description, Validation, export_bundle
from hpo.export.parity import Reported
from hpo.training.data.dataset import load_data
from hpo.training.data.prepare import prepare_data
from hpo.training.data.store import DataDamagedError
from hpo.training.determinism import configure_threads
from hpo.training.task import BadConfigError
from hpo.training.tasks.classifier import load_classifier
from tracking.checkpoints import CheckpointDamagedError, CheckpointUriError, FileCheckpointStore


def export(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Publish a checkpoint as a bundle; `hpo.study.export` writes the payload."""
    try:
        bundle = _export(payload)
    except (
        BadConfigError,
        CheckpointDamagedError,
        CheckpointUriError,
        DataDamagedError,
        ExportError,
    ) as error:
        raise FailedTrialError(FailureKind.BUG, str(error)) from error
    return {"folder": str(bundle.folder)}


def _export(payload: dict[str, Any]) -> Bundle:
    configure_threads(payload["num_threads"])
    config = payload["config"]
    cache_dir, split_seed = Path(payload["cache_dir"]), payload["split_seed"]
    found = prepare_data(config, cache_dir, split_seed)
    if found.fingerprint != payload["data_fingerprint"]:
        raise ExportError(
            f"{found.name} is not the data it was trained on: its fingerprint is"
            f" {found.fingerprint[:12]}..., on record is {payload['data_fingerprint'][:12]}...;"
            " bring that data back"
        )
    if (found.target_kind, found.pixel_dtype) != ("class", "uint8"):
        raise ExportError(
            f"{found.name} has {found.pixel_dtype} pixels and {found.target_kind} targets; a"
            " bundle takes uint8 images and gives class probabilities, load the checkpoint instead"
        )
    # Everything on the CPU, where the bundle will be compared.
    dataset = load_data(config, cache_dir, split_seed, "cpu", payload["resplit_seed"])
    card = dataset.card
    store = FileCheckpointStore(Path(payload["home"]))
    model = load_classifier(config, card, store, payload["uri"], payload["sha256"])
    return export_bundle(
        model,
        Validation(images_NCHW=dataset["val"].images_NCHW, labels_N=dataset["val"].labels_N),
        Description(
            title=payload["title"],
            data=card.name,
            class_labels=card.class_labels,
            pixel_scale=card.pixel_scale,
            mean=model.input.mean,
            std=model.input.std,
            reported=Reported(**payload["reported"]),
            sections=json.loads(Path(payload["sections"]).read_text()),
            created_at=payload["created_at"],
        ),
        Path(payload["destination"]),
    )
