"""A study's trials in memory: what the ledger holds, kept up to date by the same events.

Sampler and pruner judge from here, so that no decision waits for the database.
"""

from collections.abc import Iterable
from dataclasses import replace

from hpo.domain import event as ev
from hpo.domain.trial import Trial, TrialState


class History:
    """The trials of one study, by number."""

    def __init__(self, trials: Iterable[Trial]) -> None:
        self._trials = list(trials)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Every trial by number."""
        return tuple(self._trials)

    def __getitem__(self, number: int) -> Trial:
        return self._trials[number]

    def __len__(self) -> int:
        return len(self._trials)

    def waiting(self) -> list[Trial]:
        """Return the trials that are to run; those that have begun before first."""
        waiting = [trial for trial in self._trials if trial.state is TrialState.WAITING]
        return sorted(waiting, key=lambda trial: (trial.num_attempts == 0, trial.number))

    def apply(self, event: ev.StudyEvent) -> None:
        """Take in an event that the ledger has taken."""
        match event:
            case ev.TrialsPlanned():
                self._trials += [
                    Trial(plan=plan, state=TrialState.WAITING) for plan in event.trials
                ]
            case ev.Progressed() | ev.Noted() | ev.StudyStateChanged():
                pass
            case _:
                self._trials[event.number] = _evolve(self._trials[event.number], event)


def _evolve(
    trial: Trial,
    event: ev.AttemptStarted
    | ev.Measured
    | ev.CheckpointPublished
    | ev.AttemptInterrupted
    | ev.TrialEnded,
) -> Trial:
    match event:
        case ev.AttemptStarted():
            return replace(
                trial,
                state=TrialState.RUNNING,
                num_attempts=event.attempt,
                token=event.token,
                started_at=trial.started_at or event.at,
            )
        case ev.Measured():
            return replace(trial, measurements=(*trial.measurements, event.measurement))
        case ev.CheckpointPublished():
            if event.kind == "last":
                return replace(trial, last=event.checkpoint)
            # an epoch kept for good is the ledger's alone
            return replace(trial, best=event.checkpoint) if event.kind == "best" else trial
        case ev.AttemptInterrupted():
            return replace(trial, state=TrialState.WAITING, token=None)
        case ev.TrialEnded():
            return replace(
                trial,
                state=event.state,
                token=None,
                reason=event.reason,
                failure=event.failure,
                value=event.value,
                best_epoch=event.best_epoch,
                weights_sha256=event.weights_sha256,
                ended_at=event.at,
            )
