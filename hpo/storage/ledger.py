"""The promises of the ledger. `sql_ledger.py` keeps them over SQLite and PostgreSQL."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from hpo.domain.attempt import Attempt
from hpo.domain.event import StudyEvent
from hpo.domain.objective import Direction
from hpo.domain.study import StudyState
from hpo.domain.trial import CheckpointRef, Trial, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStudy:
    """What a study is created from."""

    uid: str
    name: str
    document: str
    """The resolved sweep as JSON in the sweep file's own format."""
    source: str
    """The sweep file's text, for people."""
    directions: tuple[Direction, ...]
    distributions: Mapping[str, str]
    """Optuna's distribution of each varied parameter, as Optuna's JSON."""
    created_at: str
    """ISO 8601, UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRow:
    """A study without its trials, as stored."""

    uid: str
    name: str
    document: str
    source: str
    state: StudyState
    reason: str
    """Why it stands there, for people."""
    created_at: str
    ended_at: str | None
    running_s: float
    """Wall-clock seconds conducted, over all runs."""
    is_stop_requested: bool
    counts: Mapping[TrialState, int]
    """How many trials are in each state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process that conducts a study."""

    host: str
    pid: int

    def __str__(self) -> str:
        return f"{self.pid} on {self.host}"


class Ledger(Protocol):
    """Keeps studies and their trials.

    1. `apply` is the only write to a study's trials: all of its events become true in one
       transaction, or none.
    2. What `apply` returned from survives the death of any process.
    3. An event whose token is not its trial's current attempt's changes nothing; `apply` returns
       how many events it refused so.
    4. Reading never blocks writing, and never sees half of an `apply`.
    5. Stock Optuna reads the same database at any time.
    6. A server that drops its connections is reached again, and no event is lost or written twice.
    7. Where hosts share a database, one process at a time owns a study; a dead one owns nothing.
    """

    def create_study(self, study: NewStudy) -> None:
        """Add a study without trials.

        Raises:
            UsageError: the name is taken.
        """
        ...

    def apply(self, study_uid: str, events: Sequence[StudyEvent]) -> int:
        """Write events of one study in one transaction; return how many were late."""
        ...

    def studies(self) -> tuple[StudyRow, ...]:
        """Return every study, the oldest first."""
        ...

    def trials(self, study_uid: str) -> tuple[Trial, ...]:
        """Return every trial of a study by number."""
        ...

    def checkpoint(self, study_uid: str, number: int, kind: str) -> CheckpointRef | None:
        """Return a trial's newest checkpoint of a kind: `last`, `best`, or `@7` of epoch 7."""
        ...

    def attempts(self, study_uid: str, number: int) -> tuple[Attempt, ...]:
        """Return every attempt at a trial, in order."""
        ...

    def notes(self, study_uid: str) -> Mapping[int, tuple[str, ...]]:
        """Return the remarks on each trial that has any, by trial number."""
        ...

    def extend_study(
        self, study_uid: str, document: str, source: str, distributions: Mapping[str, str]
    ) -> None:
        """Replace a study's sweep by a compatible, larger one."""
        ...

    def request_stop(self, study_uid: str, at: str | None) -> None:
        """Ask the study's owner to stop after the running epochs; None takes it back."""
        ...

    def is_stop_requested(self, study_uid: str) -> bool:
        """Tell whether a stop was asked for."""
        ...

    def test_result(self, study_uid: str, config_id: str) -> str | None:
        """Return the stored test-split result of a configuration as JSON, or None."""
        ...

    def store_test_result(self, study_uid: str, config_id: str, document: str, at: str) -> None:
        """Store a configuration's test-split result, in place of an earlier one."""
        ...

    def delete_study(self, study_uid: str) -> None:
        """Remove a study and everything of it from the database."""
        ...

    def own(self, study: str, owner: Owner) -> AbstractContextManager[None]:
        """Be the only one that conducts a study, for as long as the context lasts.

        Raises:
            OwnedError: another living process, on whatever machine, conducts it.
        """
        ...

    def owner_of(self, study: str) -> Owner | None:
        """Return who conducts a study now, as far as the database knows; None: nobody."""
        ...
