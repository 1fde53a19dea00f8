"""One execution of a sweep: its name, where it stands, its trials."""

from dataclasses import dataclass
from enum import StrEnum

from hpo.domain.sweep import Sweep
from hpo.domain.trial import Trial, TrialState


class StudyState(StrEnum):
    """Where a study stands."""

    RUNNING = "running"
    """A process conducts it, or died while it did."""
    STOPPED = "stopped"
    """Interrupted or stopped on request; can be resumed."""
    FINISHED = "finished"
    """Its plan or budget is spent."""
    FAILED = "failed"
    """Ended early because too many trials failed; can be resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A study as the ledger knows it now."""

    uid: str
    """Drawn at creation, so that a deleted study's name can be used again without confusion."""
    sweep: Sweep
    state: StudyState
    created_at: str
    """ISO 8601, UTC."""
    ended_at: str | None
    running_s: float
    """Wall-clock seconds spent conducting, over all runs."""
    trials: tuple[Trial, ...]
    """By number, without gaps."""

    @property
    def name(self) -> str:
        """The study's name."""
        return self.sweep.study

    def count(self, state: TrialState) -> int:
        """Return how many trials are in `state`."""
        return sum(trial.state is state for trial in self.trials)
