"""The gate before publication: does the file compute what the checkpoint computes?

It is asked in a fresh process that knows neither torch nor this project.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hpo.export.bundle import ExportError

MAX_DIFFERENCE: Final = 1e-4
"""Between two logits, or two probabilities: what summing in another order may do in float32."""
MAX_ACCURACY_DIFFERENCE: Final = 1e-6
"""Far below one image of any set: room for decimals, not for images."""
SMALL: Final = 1000
"""With fewer images every class must agree; from here on 1 in 1000 may differ."""
_GATE: Final = Path(__file__).with_name("gate.py")
TIMEOUT_S: Final = 1800
"""A gate that takes longer hangs: 10 000 images of 32 x 32 pixels take seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What the training reported of the checkpoint."""

    accuracy: float
    """On the whole validation split, as a share."""
    device: str
    """Where it was computed; anything but `cpu` rounds otherwise than the export does."""


def run_gate(folder: Path, evidence: Path | None = None) -> dict[str, Any]:
    """Run `hpo.export.gate` in a fresh process and return what it measured.

    Raises:
        ExportError: the model does not run there; the message ends with the process's last words.
    """
    # By its path and with -P: neither this project nor its folders can be imported there.
    command = [sys.executable, "-P", str(_GATE), str(folder)]
    try:
        process = subprocess.run(  # noqa: S603  # our own file
            [*command, str(evidence)] if evidence else command,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ExportError(f"the exported model did not answer in {TIMEOUT_S} s") from error
    if process.returncode != 0:
        words = process.stderr.strip().splitlines() or [f"exit code {process.returncode}"]
        raise ExportError(f"the exported model does not run in onnxruntime: {words[-1]}")
    measured: dict[str, Any] = json.loads(process.stdout)
    if measured["has_torch"]:
        raise ExportError("the exported model was run by a process that had loaded torch")
    return measured


def judge(measured: Mapping[str, Any], reported: Reported) -> None:
    """Refuse a model that is not its checkpoint.

    An image whose two top logits are nearer than `gate.TIE` is a tie: either class is right. So
    the accuracy may be off by one image where there is a tie, and by none otherwise; where a GPU
    computed the reported one, by as many as there are ties at its precision.

    Raises:
        ExportError: with the number that is too large.
    """
    for batch in measured["batches"]:
        _judge_batch(batch)
    num_images = measured["num_images"]
    ties = min(measured["num_ties"], 1)
    allowed = ties if reported.device == "cpu" else measured["num_ties_of_tf32"]
    for batch in measured["batches"]:
        if batch["num_images"] < num_images:
            continue
        accuracy = batch["num_correct"] / num_images
        too_far = allowed / num_images + MAX_ACCURACY_DIFFERENCE
        if not abs(accuracy - reported.accuracy) <= too_far:
            raise ExportError(
                f"the exported model's accuracy on {num_images} validation images is"
                f" {accuracy:.6f}, reported is {reported.accuracy:.6f}, and the checkpoint gives"
                f" {measured['num_correct_of_checkpoint'] / num_images:.6f}; at most {allowed}"
                f" image{'' if allowed == 1 else 's'} may differ"
            )


def _judge_batch(batch: Mapping[str, Any]) -> None:
    where = f"in batches of {batch['batch_size']} on {batch['num_images']} images"
    for key, what in (
        ("max_abs_difference", "logits"),
        ("max_abs_difference_of_probabilities", "probabilities"),
    ):
        difference = batch[key]
        if difference is None:
            raise ExportError(f"the {what} of the exported or the original model are not finite")
        if difference > MAX_DIFFERENCE:
            raise ExportError(
                f"the exported model's {what} differ from the checkpoint's by {difference:.3g}"
                f" {where}, must be at most {MAX_DIFFERENCE:g}"
            )
    others = batch["num_other_top"] - batch["num_other_top_in_ties"]
    allowed = 0 if batch["num_images"] < SMALL else batch["num_images"] // 1000
    if others > allowed:
        raise ExportError(
            f"the exported model decides otherwise than the checkpoint for {others} images"
            f" {where}, must be at most {allowed}"
        )
