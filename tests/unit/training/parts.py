"""Trainings put together by hand from small parts."""

from typing import Any

import torch
from torch import Tensor, nn

from hpo.domain.objective import Objective
from hpo.training.averaging import WeightAverage
from hpo.training.data.resident import Split
from hpo.training.data.sampling import Sampling
from hpo.training.determinism import STREAM_NAMES, RandomStreams
from hpo.training.losses import Loss
from hpo.training.plan import Batching
from hpo.training.precision import Precision
from hpo.training.ranks import ALONE
from hpo.training.schedules import Schedule
from hpo.training.state import Progress, TrainState
from hpo.training.stopping import Patience
from hpo.training.trainee import Trainee
from tests.unit.training.trials import undrawn


def as_they_are(images_NCHW: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return images and labels unvaried."""
    return images_NCHW, labels


def linear_model() -> nn.Module:
    """Return a linear model of one pixel and two classes whose weights are 0."""
    return undrawn(lambda: nn.Sequential(nn.Flatten(), nn.Linear(1, 2)))


def split(num_images: int, value: float = 1.0) -> Split:
    """Return images of one pixel, all equal, of two classes."""
    return Split(
        images_NCHW=torch.full((num_images, 1, 1, 1), value), labels_N=torch.arange(num_images) % 2
    )


def trainee(model: nn.Module, train: Split, val: Split, **changes: Any) -> Trainee:
    """Return a training of one epoch in batches of 4 by plain gradient descent, with changes."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.param_groups[0]["lr_scale"] = 1.0
    parts: dict[str, Any] = {
        "model": model,
        "runner": model,
        "optimizer": optimizer,
        "schedule": Schedule(kind="constant", lr=0.1, num_steps=10, num_warmup_steps=0),
        "loss": Loss(kind="cross_entropy"),
        "precision": Precision("fp32", "cpu"),
        "average": WeightAverage(model, 0.0, 0),
        "clip_norm": 0.0,
        "augment": as_they_are,
        "streams": RandomStreams(dict.fromkeys(STREAM_NAMES, 0)),
        "sampling": Sampling("uniform", train.labels_N),
        "train": train,
        "val": val,
        "batching": Batching(size=4),
        "num_epochs": 1,
        "progress": Progress(),
        "patience": Patience(0, Objective(metric="val_loss")),
        "ranks": ALONE,
        "state": TrainState(),
    }
    return Trainee(**{**parts, **changes})
