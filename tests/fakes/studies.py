"""Plain values of the domain, for tests that need some."""

import json
from collections.abc import Mapping, Sequence

from hpo.domain import event as ev
from hpo.domain.attempt import Environment
from hpo.domain.decision import CONTINUE, Decision
from hpo.domain.objective import Direction
from hpo.domain.search_space import Choices, Range, SearchSpace, Value
from hpo.domain.study import StudyState
from hpo.domain.trial import (
    CheckpointRef,
    FailureKind,
    Measurement,
    PlannedTrial,
    Role,
    TrialState,
)
from hpo.search.distributions import distribution_json
from hpo.storage.ledger import NewStudy

UID = "0123456789ab"

AT = "2026-03-01T12:00:00.000250+00:00"

SPACE = SearchSpace(
    parameters=(
        Range(name="lr", low=1e-5, high=1.0, is_log=True),
        Choices(name="batch_size", values=(16, 64, 256)),
        Choices(name="optimizer", values=("adamw", "sgd", "lion")),
        Choices(name="nesterov", values=(False, True)),
    )
)

ENVIRONMENT = Environment(
    code_digest="c0de" * 16,
    data_fingerprint="da7a" * 16,
    git_revision=None,
    git_is_dirty=True,
    versions={"python": "3.11.9", "torch": "2.14.1"},
    machine={"cpu": "a processor", "os": "an operating system"},
)


def new_study(name: str = "lr-digits", uid: str = UID) -> NewStudy:
    """Return a study to create, that varies `SPACE` and minimizes `val_loss`."""
    return NewStudy(
        uid=uid,
        name=name,
        document=json.dumps({"study": name, "objective": {"metric": "val_loss"}}),
        source=f"# the file\nstudy: {name}\n",
        directions=(Direction.MINIMIZE,),
        distributions={p.name: distribution_json(p) for p in SPACE.parameters},
        created_at=AT,
    )


def planned(number: int, **params: Value) -> PlannedTrial:
    """Return a planned trial of `SPACE`; params that are not given are the same for all."""
    full = {"lr": 1e-3, "batch_size": 64, "optimizer": "adamw", "nesterov": False, **params}
    return PlannedTrial(
        number=number,
        params=full,
        config={"epochs": 3, "model": "mlp", **full},
        replicate=number % 3,
        role=Role.POINT if number else Role.BASELINE,
        axis="lr" if number else None,
    )


def plan(numbers: Sequence[int]) -> ev.TrialsPlanned:
    """Plan trials with these numbers."""
    return ev.TrialsPlanned(trials=tuple(planned(number) for number in numbers))


def started(number: int, token: str, attempt: int = 1, at: str = AT) -> ev.AttemptStarted:
    """Start an attempt."""
    return ev.AttemptStarted(
        number=number,
        attempt=attempt,
        token=token,
        device="cpu",
        num_threads=2,
        environment=ENVIRONMENT,
        at=at,
    )


def measurement(epoch: int, val_loss: float = 0.5, **metrics: float) -> Measurement:
    """Return a measurement of one epoch."""
    return Measurement(
        epoch=epoch, examples_seen=1000 * epoch, metrics={"val_loss": val_loss, **metrics}
    )


def measured(
    number: int, token: str, epoch: int, val_loss: float = 0.5, decision: Decision = CONTINUE
) -> ev.Measured:
    """Measure an epoch."""
    return ev.Measured(
        number=number,
        token=token,
        measurement=measurement(epoch, val_loss),
        decision=decision,
        at=AT,
    )


def checkpoint(epoch: int, kind: str = "last") -> CheckpointRef:
    """Return a published checkpoint."""
    return CheckpointRef(
        uri=f"trials/lr-digits/0/{kind}-{epoch:05d}",
        sha256=f"{epoch:064x}",
        epoch=epoch,
        num_bytes=1000 + epoch,
    )


def published(number: int, token: str, epoch: int, kind: str = "last") -> ev.CheckpointPublished:
    """Publish a checkpoint."""
    return ev.CheckpointPublished(
        number=number, token=token, kind=kind, checkpoint=checkpoint(epoch, kind), at=AT
    )


def interrupted(number: int, token: str) -> ev.AttemptInterrupted:
    """End an attempt without its trial."""
    return ev.AttemptInterrupted(number=number, token=token, reason="stopped", at=AT)


def ended(
    number: int,
    token: str,
    state: TrialState = TrialState.COMPLETE,
    value: float | None = 0.5,
    **fields: object,
) -> ev.TrialEnded:
    """End a trial."""
    is_failed = state is TrialState.FAIL
    plain: Mapping[str, object] = {
        "reason": "" if state is TrialState.COMPLETE else "for a reason",
        "failure": FailureKind.DIVERGED if is_failed else None,
        "best_epoch": None if value is None else 1,
        "weights_sha256": None if is_failed else "5a" * 32,
        "at": AT,
    }
    return ev.TrialEnded(
        number=number,
        token=token,
        state=state,
        value=value,
        **{**plain, **fields},  # type: ignore[arg-type]
    )


def study_state(state: StudyState, running_s: float = 0.0) -> ev.StudyStateChanged:
    """Change a study's state."""
    return ev.StudyStateChanged(state=state, reason="because", running_s=running_s, at=AT)


def noted(number: int, note: str) -> ev.Noted:
    """Remark on a trial."""
    return ev.Noted(number=number, note=note, at=AT)


def plan_of(trials: Sequence[PlannedTrial]) -> ev.TrialsPlanned:
    """Plan these trials."""
    return ev.TrialsPlanned(trials=tuple(trials))
