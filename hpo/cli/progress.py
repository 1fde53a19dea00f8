"""The live view of a run, on stderr: a bar on a terminal, else a line for each ended trial."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from hpo.domain import event as ev
from hpo.domain.sweep import Sweep
from hpo.domain.trial import PlannedTrial, Trial, TrialState
from hpo.study.naming import run_name, value_text


class SteadyConsole(Console):
    """Falls silent when its reader leaves, as `| head` does: a view must not end a study."""

    def on_broken_pipe(self) -> None:
        """Print nothing more."""
        self.quiet = True


class RunView:
    """Listens to a study's events and shows them."""

    def __init__(self, sweep: Sweep, trials: tuple[Trial, ...]) -> None:
        self._sweep = sweep
        self._plans = {trial.number: trial.plan for trial in trials}
        self._num_ended = sum(trial.state.is_finished for trial in trials)
        self._best: tuple[float, int] | None = None
        for trial in trials:
            if trial.state is TrialState.COMPLETE and trial.value is not None:
                self._consider(trial.value, trial.number)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            console=SteadyConsole(stderr=True, quiet=sys.stderr is None),
            disable=sys.stderr is None or not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task("epochs", total=None)
        self._done_epochs = sum(trial.num_epochs for trial in trials)

    def __enter__(self) -> Self:
        self._progress.start()
        self._refresh()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def take(self, event: ev.StudyEvent) -> None:
        """Show one event."""
        match event:
            case ev.TrialsPlanned():
                self._plans |= {plan.number: plan for plan in event.trials}
                self._refresh()
            case ev.Measured():
                self._done_epochs += 1
                self._refresh()
            case ev.AttemptInterrupted():
                self.say(f"  {self._name(event.number)}  waits again: {event.reason}")
            case ev.Noted():
                self.say(f"  {self._name(event.number)}  {event.note}")
            case ev.TrialEnded():
                self._end(event)
            case _:
                pass

    def _end(self, event: ev.TrialEnded) -> None:
        self._num_ended += 1
        if event.state is TrialState.COMPLETE and event.value is not None:
            self._consider(event.value, event.number)
        metric = self._sweep.objective.metric
        value = f"{metric} {event.value:.4f}" if event.value is not None else ""
        what = f"{event.state.value:8s} {value:18s} {event.reason}".rstrip()
        self.say(f"  {self._name(event.number)}  {what}")
        self._refresh()

    def _consider(self, value: float, number: int) -> None:
        if self._best is None or self._sweep.objective.is_better(value, self._best[0]):
            self._best = (value, number)

    def _name(self, number: int) -> str:
        plan = self._plans[number]
        return f"{self._sweep.study}/{number:<3d} {run_name(self._sweep, plan):28s}"

    def _refresh(self) -> None:
        best = f"best {value_text(self._best[0])}" if self._best else "no trial ended yet"
        description = f"{self._num_ended} of {self._num_trials()} trials  {best}  epochs"
        self._progress.update(
            self._task,
            description=description,
            completed=self._done_epochs,
            total=self._total_epochs(),
        )

    def _num_trials(self) -> int:
        return max(len(self._plans), self._sweep.budget.num_trials or 0)

    def _total_epochs(self) -> int:
        planned = sum(_epochs(plan) for plan in self._plans.values())
        unplanned = self._num_trials() - len(self._plans)
        return planned + unplanned * int(self._sweep.baseline.get("epochs", 0))


def _epochs(plan: PlannedTrial) -> int:
    return int(plan.config.get("epochs", 0))
