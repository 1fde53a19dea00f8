"""What a training keeps of itself to be diagnosed: its curve, and how it began.

A part of every checkpoint, so that a trial that was resumed is diagnosed over its whole curve.
What measures the machine is left out, since equal trainings write equal checkpoints; that is
diagnosed over the epochs of the last attempt.

Shapes: N images, C channels, H height, W width, K classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, nn

from hpo.domain.trial import TIMING_METRICS, Measurement
from hpo.training.data.batch import Examples
from hpo.training.metrics import Scores

SAMPLE_SIZE: Final = 256
"""Images that the beginning is judged by: a mean over them is within 0.1 of the split's."""

_KEPT: Final = (
    "train_loss",
    "val_loss",
    "val_accuracy",
    "lr",
    "grad_norm",
    "grad_norm_max",
    "update_ratio",
    "data_s",
    "compute_s",
    "peak_memory_bytes",
)
"""The metrics that `hpo.training.diagnosis` reads."""


@dataclass(slots=True)
class Diary:
    """How a training began and went."""

    initial_loss: float | None = None
    """Mean loss before the first update; None where that was not measured."""
    input_mean: tuple[float, ...] = ()
    """By channel, of what reaches the network."""
    input_std: tuple[float, ...] = ()
    measurements: list[Measurement] = field(default_factory=list)
    """One for each epoch, reduced to what a diagnosis reads."""
    val_counts: tuple[int, ...] = ()
    """Validation examples by class."""
    predicted_counts: tuple[int, ...] = ()
    """The same by the class predicted after the last epoch."""

    def write(self, measurement: Measurement, validated: Scores) -> None:
        """Add an epoch."""
        self.val_counts, self.predicted_counts = (
            validated.actual_counts,
            validated.predicted_counts,
        )
        kept = {name: measurement.metrics[name] for name in _KEPT if name in measurement.metrics}
        self.measurements.append(
            Measurement(
                epoch=measurement.epoch, examples_seen=measurement.examples_seen, metrics=kept
            )
        )

    def state_dict(self) -> dict[str, Any]:
        """Return everything but timings, as JSON."""
        return {
            "initial_loss": self.initial_loss,
            "input_mean": list(self.input_mean),
            "input_std": list(self.input_std),
            "val_counts": list(self.val_counts),
            "predicted_counts": list(self.predicted_counts),
            "epochs": [
                {
                    "epoch": m.epoch,
                    "examples_seen": m.examples_seen,
                    "metrics": {n: v for n, v in m.metrics.items() if n not in TIMING_METRICS},
                }
                for m in self.measurements
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what was written."""
        self.initial_loss = state["initial_loss"]
        self.input_mean = tuple(state["input_mean"])
        self.input_std = tuple(state["input_std"])
        self.val_counts = tuple(state["val_counts"])
        self.predicted_counts = tuple(state["predicted_counts"])
        self.measurements = [Measurement(**epoch) for epoch in state["epochs"]]


def sample(examples: Examples, size: int = SAMPLE_SIZE) -> tuple[Tensor, Tensor]:
    """Return images and targets from all over a split, which may be stored class by class."""
    size = min(size, len(examples))
    order_N = torch.linspace(0, len(examples) - 1, size, dtype=torch.float64).round().long()
    batch = next(iter(examples.batches([(0, size)], order_N)))
    return batch.images_NCHW, batch.labels_N


@torch.no_grad()
def outputs_unmoved(model: nn.Module, images_NCHW: Tensor) -> Tensor:
    """Return what an untrained model gives, without dropout, leaving it as it was.

    Batch norm takes its statistics from the images, as in the first update, since its own are not
    yet any; they are put back.
    """
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    modes = [(module, module.training) for module in model.modules()]
    model.train()  # a frozen norm stays in evaluation mode
    for module in model.modules():
        if not isinstance(module, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001  # all of them
            module.training = False
    try:
        outputs_NK: Tensor = model(images_NCHW)
    finally:
        for buffer, value in buffers:
            buffer.copy_(value)
        for module, is_training in modes:
            module.training = is_training
    return outputs_NK


@torch.no_grad()
def input_statistics(
    normalize: nn.Module, images_NCHW: Tensor
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation by channel of what a normalisation gives."""
    pixels_NCHW = normalize(images_NCHW).double()
    std_C, mean_C = torch.std_mean(pixels_NCHW, dim=(0, 2, 3), correction=0)
    return tuple(mean_C.tolist()), tuple(std_C.tolist())
