"""The promises of the ledger. `sql_ledger.py` keeps them over SQLite and PostgreSQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hpo.domain.event import StudyEvent
from hpo.domain.study import StudyState
from hpo.domain.trial import Trial, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRow:
    """A study without its trials, as stored."""

    uid: str
    name: str
    document: str
    """The resolved sweep as JSON in the sweep file's own format."""
    source: str
    """The sweep file's text, for people and for showing a difference."""
    state: StudyState
    reason: str
    created_at: str
    ended_at: str | None
    running_s: float
    counts: dict[TrialState, int]


class Ledger(Protocol):
    """Keeps studies and their trials.

    1. `apply` is the only write to a study's trials: all of its events become true in one
       transaction, or none.
    2. What `apply` returned from survives the death of any process.
    3. An event whose token is not the trial's current attempt's changes nothing; `apply` returns
       how many events it refused so.
    4. Reading never blocks writing, and never sees half of an `apply`.
    5. Stock Optuna reads the same database at any time.
    """

    def apply(self, study_uid: str, events: Sequence[StudyEvent]) -> int:
        """Write events of one study in one transaction; return how many were late."""
        ...

    def trials(self, study_uid: str) -> tuple[Trial, ...]:
        """Return every trial of a study by number."""
        ...
