"""What an attempt and its conductor say to each other: versioned JSON, one message a line.

Every message names its trial, attempt and token and carries a sequence number, so that a message
of a revoked attempt is recognised and an answer finds its question.
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from hpo.domain.decision import Action, Decision
from hpo.domain.trial import CheckpointRef, FailureKind, Measurement

PROTOCOL_VERSION = 1


class ProtocolError(Exception):
    """A line that is not a message of this version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptKey:
    """Who speaks: an attempt, never a process."""

    trial: int
    """The trial's number within its study."""
    attempt: int
    """Counts from 1 within the trial."""
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The attempt's process runs its entry point."""

    kind: ClassVar[str] = "started"
    resumed_epoch: int
    """The epoch of the checkpoint it goes on from; 0 from the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How much of the running epoch is done. Needs no answer."""

    kind: ClassVar[str] = "progress"
    epoch: int
    fraction: float
    """0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An epoch's measurement. The attempt waits for an `Answer`."""

    kind: ClassVar[str] = "report"
    measurement: Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWritten:
    """A whole checkpoint is on disk. The attempt waits for an answer, then removes the old one."""

    kind: ClassVar[str] = "checkpoint"
    checkpoint_kind: str
    """`last` or `best`."""
    checkpoint: CheckpointRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The entry point returned."""

    kind: ClassVar[str] = "finished"
    result: dict[str, Any]
    """Plain JSON; for a training attempt its outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The entry point raised, or the training went wrong."""

    kind: ClassVar[str] = "failed"
    failure: FailureKind
    text: str
    """One line for people."""
    traceback: str = ""


Body = Started | Progress | Report | CheckpointWritten | Finished | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Something an attempt says."""

    key: AttemptKey
    sequence: int
    """Counts from 1 within the attempt."""
    body: Body

    def to_line(self) -> bytes:
        """Return the message as one line of JSON."""
        document = {
            "version": PROTOCOL_VERSION,
            "kind": self.body.kind,
            **dataclasses.asdict(self.key),
            "sequence": self.sequence,
            "body": dataclasses.asdict(self.body),
        }
        return json.dumps(document, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Read one line.

        Raises:
            ProtocolError: it is not a message of this protocol version.
        """
        try:
            document = json.loads(line)
            if document["version"] != PROTOCOL_VERSION:
                raise ProtocolError(
                    f"protocol version {document['version']}, expected {PROTOCOL_VERSION}"
                )
            return cls(
                key=AttemptKey(
                    trial=document["trial"],
                    attempt=document["attempt"],
                    token=document["token"],
                ),
                sequence=document["sequence"],
                body=_body(document["kind"], document["body"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ProtocolError(f"not a message: {line[:200]!r}") from error


def _body(kind: str, fields: dict[str, Any]) -> Body:
    match kind:
        case Started.kind:
            return Started(**fields)
        case Progress.kind:
            return Progress(**fields)
        case Report.kind:
            return Report(measurement=Measurement(**fields["measurement"]))
        case CheckpointWritten.kind:
            return CheckpointWritten(
                checkpoint_kind=fields["checkpoint_kind"],
                checkpoint=CheckpointRef(**fields["checkpoint"]),
            )
        case Finished.kind:
            return Finished(**fields)
        case Failed.kind:
            return Failed(**{**fields, "failure": FailureKind(fields["failure"])})
        case _:
            raise ProtocolError(f"unknown kind of message: {kind!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the conductor says to a message that waits for one."""

    sequence: int
    """Of the message it answers."""
    decision: Decision

    def to_line(self) -> bytes:
        """Return the answer as one line of JSON."""
        document = {
            "version": PROTOCOL_VERSION,
            "sequence": self.sequence,
            "action": self.decision.action.value,
            "reason": self.decision.reason,
        }
        return json.dumps(document, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Read one line.

        Raises:
            ProtocolError: it is not an answer of this protocol version.
        """
        try:
            document = json.loads(line)
            if document["version"] != PROTOCOL_VERSION:
                raise ProtocolError(f"protocol version {document['version']}")
            decision = Decision(action=Action(document["action"]), reason=document["reason"])
            return cls(sequence=document["sequence"], decision=decision)
        except (ValueError, KeyError, TypeError) as error:
            raise ProtocolError(f"not an answer: {line[:200]!r}") from error
