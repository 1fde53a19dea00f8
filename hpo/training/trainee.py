"""`Trainee`: everything that one training consists of, put together before it begins."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from hpo.training.averaging import WeightAverage
from hpo.training.data.batch import Examples
from hpo.training.data.sampling import Sampling
from hpo.training.determinism import RandomStreams
from hpo.training.diary import Diary
from hpo.training.losses import Loss
from hpo.training.plan import Batching
from hpo.training.precision import Precision
from hpo.training.ranks import Ranks
from hpo.training.schedules import Schedule
from hpo.training.state import Progress, TrainState
from hpo.training.stopping import Patience

Augment = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Takes raw images_NCHW and their labels, returns what is trained on: varied images, and labels
or, where images are mixed, a probability for each class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainee:
    """What is trained, with what, on what."""

    model: nn.Module
    """What is evaluated and saved."""
    runner: nn.Module
    """What is called in training: the model, or the model on several devices."""
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    loss: Loss
    """What is minimised; evaluation takes its plain form."""
    precision: Precision
    average: WeightAverage
    """Of the weights; evaluated and saved in their place once it has begun."""
    clip_norm: float
    """Largest norm of the gradient; 0 clips nothing."""
    augment: Augment
    streams: RandomStreams
    sampling: Sampling
    """Draws the order of each epoch."""
    train: Examples
    val: Examples
    batching: Batching
    num_epochs: int
    progress: Progress
    """Whole epochs done; the loop moves it."""
    patience: Patience
    """Says when to end early."""
    ranks: Ranks
    """This process among those that train together."""
    state: TrainState
    """All of the above that a checkpoint holds."""
    diary: Diary = field(default_factory=Diary)
    """What the training is diagnosed by at its end."""
