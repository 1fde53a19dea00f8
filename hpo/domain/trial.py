"""One point of the search space with one seed: its identity, its state, what it measured."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hpo.domain.search_space import Params


class TrialState(StrEnum):
    """Optuna's states, Optuna's spelling."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    PRUNED = "PRUNED"
    FAIL = "FAIL"

    @property
    def is_finished(self) -> bool:
        """Whether the trial will never run again."""
        return self in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


class Role(StrEnum):
    """Why a trial exists. Sampler, statistics and best filter by it."""

    BASELINE = "baseline"
    POINT = "point"
    NUISANCE = "nuisance"
    ADOPT = "adopt"
    CONFIRM = "confirm"
    AUDIT = "audit"


class FailureKind(StrEnum):
    """What kind of failure ended a trial as FAIL."""

    DIVERGED = "diverged"
    """A loss that is not finite."""
    BUG = "bug"
    """The training code raised an exception."""
    BAD_CONFIG = "bad_config"
    """The configuration cannot be trained."""
    CRASH = "crash"
    """The process died without a word."""
    OOM = "oom"
    """A device or the host ran out of memory."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TrialId:
    """The only public identity of a trial: `study/number`."""

    study: str
    number: int

    def __str__(self) -> str:
        return f"{self.study}/{self.number}"

    @classmethod
    def parse(cls, text: str) -> "TrialId":
        """Read `study/number`.

        Raises:
            ValueError: `text` has another form.
        """
        study, slash, number = text.rpartition("/")
        if not (slash and study and number.isdecimal()):
            raise ValueError(f"'{text}' is not a trial ID; write STUDY/NUMBER, as in lr-digits/7")
        return cls(study=study, number=int(number))


def config_id(config: Params) -> str:
    """Return the content hash of a configuration without its seeds, 12 hex digits.

    Replicates share it. `1` and `1.0` hash alike, so that a value written either way is one.
    """
    plain = {
        key: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for key, value in config.items()
    }
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """A trial before it runs: one row of the plan."""

    number: int
    """Counts from 0 within the study, without gaps."""
    params: Params
    """Values of the varied parameters, the baseline's where this trial does not change them."""
    config: Params
    """The full configuration: the baseline with `params` laid over it."""
    replicate: int
    """Which paired seed, from 0: the same replicate has the same seeds in every configuration."""
    role: Role
    axis: str | None = None
    """The one parameter that differs from the baseline; None in joint searches."""
    config_id: str = field(init=False, repr=False, compare=False)
    """The content hash of `config`; see `config_id`. Kept, since every proposal asks for all."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "config_id", config_id(self.config))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Metric values at one epoch."""

    epoch: int
    """Counts from 1."""
    examples_seen: int
    """Training examples since the trial began; makes trials of unequal batch comparable."""
    metrics: Mapping[str, float]
    """By name: `train_loss`, `val_loss`, ... . All finite."""


TIMING_METRICS = frozenset(
    {"epoch_s", "data_s", "compute_s", "examples_per_s", "peak_memory_bytes"}
)
"""Metrics that measure the machine rather than the model; two equal runs differ in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRef:
    """A published checkpoint."""

    uri: str
    """Where it is, relative to the home."""
    sha256: str
    """Of the whole file; verified before every load."""
    epoch: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A trial as the ledger knows it now."""

    plan: PlannedTrial
    state: TrialState
    reason: str = ""
    """Why it was pruned or failed, for people; empty otherwise."""
    failure: FailureKind | None = None
    """Set exactly when the state is FAIL."""
    measurements: tuple[Measurement, ...] = ()
    """One for each epoch, in order, without repeats."""
    value: float | None = None
    """The objective's value; for PRUNED the value so far, for FAIL None."""
    best_epoch: int | None = None
    """The epoch whose value is `value`."""
    last: CheckpointRef | None = None
    best: CheckpointRef | None = None
    weights_sha256: str | None = None
    """Of the weights after the last trained epoch; set when the trial ended by itself."""
    num_attempts: int = 0
    token: str | None = None
    """Of the attempt that runs it now; set exactly when the state is RUNNING."""
    started_at: str | None = None
    """ISO 8601, UTC."""
    ended_at: str | None = None

    @property
    def number(self) -> int:
        """The number within the study."""
        return self.plan.number

    @property
    def num_epochs(self) -> int:
        """How many epochs were measured."""
        return self.measurements[-1].epoch if self.measurements else 0
