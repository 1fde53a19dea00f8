"""The contract between a trainable thing and whatever runs it. Imports no framework."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, Self

from hpo.domain.decision import Decision
from hpo.domain.objective import At, Direction, Objective
from hpo.domain.search_space import Params
from hpo.domain.trial import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialWeights:
    """Weights of another trial to begin with, as `init_from: study/number@epoch` names them."""

    path: str
    """Of a checkpoint file with evaluated weights: kind `best`, or one kept by `keep_every`."""
    sha256: str
    """Of the file; another content is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """Everything that decides a trial's result. Plain data: equal requests train equal weights."""

    config: Params
    """The full configuration, as the task's schema completed it."""
    seeds: Mapping[str, int]
    """One for each stream: `init`, `data_order`, `augmentation`, `dropout`; 0 to 2**63 - 1."""
    split_seed: int
    """Draws the train, validation and test split; one for the whole study."""
    objective: Objective
    """Decides which epoch's weights are the best."""
    device: str
    """`cpu`, `cuda:0` or `mps`."""
    num_threads: int
    """Torch threads, at least 1. Part of the result: sums differ between thread counts."""
    cache_dir: Path
    """Where decoded data sets lie."""
    init_from: InitialWeights | None = None
    """What `init_from` stands for where it names a trial; whoever asks has looked it up."""

    def to_json(self) -> dict[str, Any]:
        """Return the request as plain JSON."""
        return {
            **asdict(self),
            "config": dict(self.config),
            "seeds": dict(self.seeds),
            "cache_dir": str(self.cache_dir),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        initial = plain.get("init_from")
        return cls(
            config=plain["config"],
            seeds=plain["seeds"],
            split_seed=plain["split_seed"],
            objective=Objective(
                metric=plain["objective"]["metric"],
                direction=Direction(plain["objective"]["direction"]),
                at=At(plain["objective"]["at"]),
            ),
            device=plain["device"],
            num_threads=plain["num_threads"],
            cache_dir=Path(plain["cache_dir"]),
            init_from=InitialWeights(**initial) if initial else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCheckpoint:
    """What a checkpoint store returned for a checkpoint that is whole and on disk."""

    uri: str
    sha256: str
    epoch: int
    num_bytes: int


class Reporter(Protocol):
    """How training speaks to whoever runs it.

    1. `report` is called once after each epoch, in order, and waits for the decision.
    2. After any decision but `continue`, training checkpoints and returns.
    3. `published` is called after a checkpoint is whole on disk, before the previous one of its
       kind is removed.
    4. `progress` may be called at any time, costs microseconds and may be dropped.
    """

    def progress(self, epoch: int, fraction: float) -> None:
        """Tell how much of the running epoch is done, 0 to 1."""
        ...

    def report(self, measurement: Measurement) -> Decision:
        """Hand over an epoch's metrics and return what to do next."""
        ...

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        """Tell that a checkpoint is on disk: `last`, `best`, or `@7` of epoch 7 (`keep_every`)."""
        ...


class OutcomeKind(StrEnum):
    """How training ended, seen from inside."""

    FINISHED = "finished"
    """All epochs are trained, or patience is over; the message says which."""
    ENDED_BY_DECISION = "ended_by_decision"
    """The last decision was pause, prune or stop."""
    DIVERGED = "diverged"
    """A loss was not finite; the optimizer step was not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """What training returns."""

    kind: OutcomeKind
    message: str = ""
    """For people: `train_loss is nan in epoch 3, batch 12`."""
    weights_sha256: str | None = None
    """`weights_digest` of what the last whole epoch evaluated; None when diverged."""
    findings: tuple[str, ...] = ()
    """What the curve says, a line each: `overfitting: since epoch 6: ..`; none if all is well."""


class BadConfigError(Exception):
    """The configuration cannot be trained; the message says why and what to change."""
