"""What a sweep will take, from training its baseline for a moment."""

from dataclasses import dataclass

from hpo.domain.sweep import Sweep
from hpo.domain.trial import PlannedTrial, Trial, TrialState
from hpo.execution.call import call
from hpo.search.sampler import make_sampler
from hpo.study.beginning import devices_per_trial
from hpo.study.compose import WORKER, open_executor, prepare_data, training_request
from hpo.study.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a sweep will take on this machine, at most."""

    num_trials: int
    num_epochs: int
    """Over all trials, when none is pruned."""
    num_workers: int
    device: str
    epoch_s: float
    """Seconds an epoch of the baseline, with as many threads as a trial will have."""
    wall_s: float
    disk_bytes: int
    memory_bytes: int
    """Of all workers together."""


def first_proposal(sweep: Sweep) -> tuple[PlannedTrial, ...]:
    """Return what the sampler plans before anything has run: all of it, or the baseline."""
    return make_sampler(sweep).propose(())


def estimate(sweep: Sweep, home: Home) -> Estimate:
    """Train the baseline for some seconds and extrapolate."""
    planned = first_proposal(sweep)
    num_trials = max(len(planned), sweep.budget.num_trials or 0)
    baseline_epochs = int(sweep.baseline.get("epochs", 1))
    planned_epochs = sum(int(plan.config.get("epochs", 1)) for plan in planned)
    num_epochs = planned_epochs + (num_trials - len(planned)) * baseline_epochs
    with open_executor(sweep.execution, num_devices=devices_per_trial(sweep)) as executor:
        prepare_data(executor, home, sweep)
        slot, num_workers = executor.slots[0], len(executor.slots)
        trial = Trial(plan=planned[0], state=TrialState.WAITING)
        request = training_request(home, sweep, trial, slot)
        measured = call(executor, f"{WORKER}:micro_run", {"request": request}, home.log)
    return Estimate(
        num_trials=num_trials,
        num_epochs=num_epochs,
        num_workers=num_workers,
        device=slot.device,
        epoch_s=measured["epoch_s"],
        wall_s=num_epochs * measured["epoch_s"] / num_workers,
        disk_bytes=num_trials * measured["checkpoint_bytes"],
        memory_bytes=num_workers * measured["memory_bytes"],
    )
