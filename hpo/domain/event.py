"""What happens in a study. `Ledger.apply` writes these; terminal, log and tracking listen to them.

An event says what became true, never what to do. Each is durable as soon as it is emitted, except
`Progressed`, which is only for watching.
"""

from dataclasses import dataclass

from hpo.domain.attempt import Environment
from hpo.domain.decision import Decision
from hpo.domain.study import StudyState
from hpo.domain.trial import CheckpointRef, FailureKind, Measurement, PlannedTrial, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsPlanned:
    """New trials exist and are WAITING."""

    trials: tuple[PlannedTrial, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """A trial is RUNNING: one try at it was handed to an executor."""

    number: int
    """Of the trial."""
    attempt: int
    """Counts from 1 within the trial."""
    token: str
    """Names this attempt alone; a message with another token is late and changes nothing."""
    device: str
    num_threads: int
    environment: Environment
    at: str
    """ISO 8601, UTC, as in all events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """A running epoch went on. Not durable."""

    number: int
    epoch: int
    fraction: float
    """Of the epoch, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An epoch was measured and judged."""

    number: int
    token: str
    measurement: Measurement
    decision: Decision
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPublished:
    """A whole checkpoint is on disk."""

    number: int
    token: str
    kind: str
    """`last`, `best`, or `@7` for epoch 7 kept for good; at most 8 letters."""
    checkpoint: CheckpointRef
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptInterrupted:
    """An attempt ended without ending its trial, which is WAITING again."""

    number: int
    token: str
    reason: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """A trial is COMPLETE, PRUNED or FAIL for good."""

    number: int
    token: str
    state: TrialState
    reason: str
    failure: FailureKind | None
    value: float | None
    """None for FAIL, whatever it measured before."""
    best_epoch: int | None
    weights_sha256: str | None
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A remark that belongs to a trial, such as a resume that did not repeat itself exactly."""

    number: int
    note: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStateChanged:
    """A run of the study began or ended."""

    state: StudyState
    reason: str
    running_s: float
    """Wall-clock seconds conducted so far, over all runs."""
    at: str


StudyEvent = (
    TrialsPlanned
    | AttemptStarted
    | Progressed
    | Measured
    | CheckpointPublished
    | AttemptInterrupted
    | TrialEnded
    | Noted
    | StudyStateChanged
)
