"""What can be found in a training, and what it is found from. Imports no framework."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hpo.domain.trial import Measurement


class FindingKind(StrEnum):
    """What can be found."""

    DIVERGED = "diverged"
    INITIAL_LOSS = "initial loss"
    NORMALISATION = "normalisation"
    DEAD = "dead learning rate"
    NOT_CONVERGING = "not converging"
    SHUFFLED = "shuffled labels"
    PLATEAU = "plateau"
    OVERFITTING = "overfitting"
    NEVER_PREDICTED = "class never predicted"
    MEMORY = "memory grows"
    LOADER = "loader-bound"

    @property
    def tag(self) -> str:
        """The kind as a tag of a run."""
        return f"hpo.diagnosis.{self.value.replace(' ', '_').replace('-', '_')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a curve says."""

    kind: FindingKind
    text: str
    """One line for people, with its numbers and what to do."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"

    @classmethod
    def parse(cls, note: str) -> "Finding | None":
        """Read what `str` wrote; None for any other remark."""
        name, colon, text = note.partition(": ")
        known = [kind for kind in FindingKind if kind.value == name]
        return cls(kind=known[0], text=text) if colon and known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a training besides its curve; what is None is not judged."""

    num_classes: int | None = None
    """Of a task with one class for each image, trained with cross-entropy; None for others."""
    initial_loss: float | None = None
    """Mean loss before the first update; None where training began from given weights."""
    input_mean: tuple[float, ...] = ()
    """By channel, of what reaches the network."""
    input_std: tuple[float, ...] = ()
    has_own_normalisation: bool = True
    """Whether the constants were measured on the training data; not those of given weights."""
    class_labels: tuple[str, ...] = ()
    val_counts: tuple[int, ...] = ()
    """Validation examples by class."""
    predicted_counts: tuple[int, ...] = ()
    """Validation examples by the class predicted at the end."""
    is_streaming: bool = False
    """Whether examples are read while training."""
    failure: str = ""
    """Why training ended with a loss or gradient that is not finite."""

    @property
    def chance_loss(self) -> float | None:
        """The loss of guessing every class alike, ln(classes), in nats."""
        return math.log(self.num_classes) if self.num_classes else None


@dataclass(frozen=True, slots=True)
class Curve:
    """A training's measurements, by metric."""

    measurements: Sequence[Measurement]

    def __len__(self) -> int:
        return len(self.measurements)

    def of(self, name: str) -> list[float]:
        """Return a metric by epoch; empty where an epoch lacks it."""
        values = [m.metrics[name] for m in self.measurements if name in m.metrics]
        return values if len(values) == len(self.measurements) else []

    def measured(self, *names: str) -> "Curve":
        """Return the epochs that have all of some metrics."""
        return Curve([m for m in self.measurements if all(name in m.metrics for name in names)])

    def epoch(self, index: int) -> int:
        """Return the number of the epoch at an index."""
        return self.measurements[index].epoch
