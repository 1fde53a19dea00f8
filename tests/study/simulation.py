"""Whole studies in virtual time: a sampler and a pruner against made-up learning curves."""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hpo.domain.objective import Objective
from hpo.domain.search_space import Choices, Params, Range, SearchSpace
from hpo.domain.sweep import (
    Budget,
    Execution,
    NoPruning,
    Pruner,
    RandomSearch,
    Strategy,
    Sweep,
    Tracking,
)
from hpo.domain.trial import FailureKind, Measurement, PlannedTrial, Role, Trial, TrialState
from hpo.search.pruner import make_pruner
from hpo.search.sampler import make_sampler

LOSS = Objective(metric="val_loss")

BASELINE: Params = {"lr": 1e-3, "weight_decay": 1e-4, "batch_size": 64, "optimizer": "adamw"}

SPACE = SearchSpace(
    parameters=(
        Range(name="lr", low=1e-5, high=1.0, is_log=True, num_points=6),
        Choices(name="weight_decay", values=(1e-5, 1e-4, 1e-3)),
        Choices(name="batch_size", values=(16, 64, 256)),
        Choices(name="optimizer", values=("adamw", "sgd")),
    )
)

TWELVE_POINTS = SearchSpace(
    parameters=(
        Choices(name="batch_size", values=(16, 32, 64, 128)),
        Choices(name="optimizer", values=("adamw", "sgd", "lion")),
    )
)


def make_sweep(
    strategy: Strategy | None = None,
    *,
    space: SearchSpace = SPACE,
    baseline: Params | None = None,
    epochs: int = 9,
    pruner: Pruner | None = None,
    **settings: object,
) -> Sweep:
    """Return a sweep whose remaining settings are the plainest."""
    plain: dict[str, object] = {
        "study": "simulated",
        "objectives": (LOSS,),
        "budget": Budget(),
        "execution": Execution(),
        "tracking": Tracking(),
    }
    return Sweep(
        strategy=strategy or RandomSearch(),
        space=space,
        baseline={**(baseline or BASELINE), "epochs": epochs},
        pruner=pruner or NoPruning(),
        **{**plain, **settings},  # type: ignore[arg-type]
    )


def make_trial(
    number: int,
    curve: Mapping[int, float] | list[float] | None = None,
    *,
    state: TrialState = TrialState.RUNNING,
    config: Params | None = None,
    objective: Objective = LOSS,
    **plan: object,
) -> Trial:
    """Return a trial that measured `curve`, from epoch 1 or by epoch."""
    full = {**BASELINE, "epochs": 27, "lr": 1e-5 * (number + 1), **(config or {})}
    points = dict(enumerate(curve, 1)) if isinstance(curve, list) else dict(curve or {})
    measurements = tuple(
        Measurement(epoch=epoch, examples_seen=100 * epoch, metrics={objective.metric: value})
        for epoch, value in points.items()
    )
    selected = objective.select(measurements)
    fields: dict[str, object] = {"role": Role.POINT, "replicate": 0, **plan}
    return Trial(
        plan=PlannedTrial(
            number=number,
            params={name: full[name] for name in SPACE.names},
            config=full,
            **fields,  # type: ignore[arg-type]
        ),
        state=state,
        measurements=measurements,
        value=None if selected is None else selected.metrics[objective.metric],
        best_epoch=None if selected is None else selected.epoch,
    )


def waiting(plans: tuple[PlannedTrial, ...]) -> list[Trial]:
    """Return planned trials as the ledger holds them at first."""
    return [Trial(plan=plan, state=TrialState.WAITING) for plan in plans]


def completed(trial: Trial, value: float, epochs: int = 1) -> Trial:
    """Return a trial that ended with a value."""
    return replace(
        trial,
        state=TrialState.COMPLETE,
        value=value,
        best_epoch=epochs,
        measurements=(
            Measurement(epoch=epochs, examples_seen=epochs, metrics={LOSS.metric: value}),
        ),
    )


def diverged(trial: Trial) -> Trial:
    """Return a trial that ended with a loss that is not finite."""
    return replace(
        trial, state=TrialState.FAIL, failure=FailureKind.DIVERGED, reason="loss is nan"
    )


Curve = Callable[[PlannedTrial, int], float | None]
"""The value of a trial after an epoch; None when it diverges there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A study in virtual time that ended."""

    trials: tuple[Trial, ...]
    num_epochs: int
    """Trained over all trials."""
    most_running: int
    """Trials that ran at one time."""

    def count(self, state: TrialState) -> int:
        """Return how many trials ended in a state."""
        return sum(trial.state is state for trial in self.trials)


def simulate(sweep: Sweep, curve: Curve, *, slots: int = 1, max_trials: int = 400) -> Ended:
    """Conduct a whole study on `slots` workers whose epochs take one unit of virtual time.

    Trials start in the order planned; epochs that end together are handled by trial number.
    """
    sampler, pruner = make_sampler(sweep), make_pruner(sweep)
    history: list[Trial] = []
    queue: list[int] = []
    events: list[tuple[float, int]] = []
    now, num_epochs, most_running, is_spent = 0.0, 0, 0, False
    while True:
        while len(events) < slots:
            if not queue and not is_spent:
                planned = waiting(sampler.propose(history)) if len(history) < max_trials else []
                is_spent = not planned
                history += planned
                queue += [trial.number for trial in planned]
            if not queue:
                break
            number = queue.pop(0)
            history[number] = replace(history[number], state=TrialState.RUNNING)
            heapq.heappush(events, (now + 1 + number / 1000, number))
        if not events:
            return Ended(trials=tuple(history), num_epochs=num_epochs, most_running=most_running)
        most_running = max(most_running, len(events))
        now, number = heapq.heappop(events)
        num_epochs += 1
        trial = history[number] = _after_epoch(history[number], curve, sweep.objective)
        if trial.state is not TrialState.RUNNING:
            continue
        decision = pruner.judge(trial, history, sweep.objective)
        if not decision.is_continue:
            history[number] = replace(trial, state=TrialState.PRUNED, reason=decision.reason)
        elif trial.num_epochs == trial.plan.config["epochs"]:
            history[number] = replace(trial, state=TrialState.COMPLETE)
        else:
            heapq.heappush(events, (now + 1, number))


def _after_epoch(trial: Trial, curve: Curve, objective: Objective) -> Trial:
    epoch = trial.num_epochs + 1
    value = curve(trial.plan, epoch)
    if value is None:
        return diverged(trial)
    measured = Measurement(
        epoch=epoch, examples_seen=epoch * 100, metrics={objective.metric: value}
    )
    measurements = (*trial.measurements, measured)
    selected = objective.select(measurements)
    assert selected is not None
    return replace(
        trial,
        measurements=measurements,
        value=selected.metrics[objective.metric],
        best_epoch=selected.epoch,
    )
