"""Putting a study together from its parts, and running it."""

import contextlib
import dataclasses
import json
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import hpo
import tracking
from hpo.clock import Clock
from hpo.domain.attempt import Environment
from hpo.domain.event import StudyEvent
from hpo.domain.study import Study, StudyState
from hpo.domain.sweep import Execution, Sweep
from hpo.domain.trial import PlannedTrial, Role, Trial, TrialState
from hpo.errors import UsageError
from hpo.execution.call import call
from hpo.execution.executor import Executor, Job, Slot
from hpo.execution.inventory import Inventory, take_inventory
from hpo.execution.launcher import ForkLauncher, Launcher, SpawnLauncher
from hpo.execution.message import AttemptKey
from hpo.execution.placement import place
from hpo.execution.processes import ProcessExecutor
from hpo.execution.signals import interruptible
from hpo.execution.slots import SlotPool
from hpo.search.distributions import distribution_json, stored_space
from hpo.search.pruner import make_pruner
from hpo.search.sampler import make_sampler
from hpo.search.seeds import split_seed, trial_seeds
from hpo.storage.ledger import Ledger, NewStudy, StudyRow
from hpo.study import archive
from hpo.study.beginning import beginning_of, check_beginnings, devices_per_trial
from hpo.study.conclusion import conclude
from hpo.study.conductor import StudyParts
from hpo.study.history import History
from hpo.study.home import Home
from hpo.study.lineage import lineage_of
from hpo.study.mirror import Mirror
from hpo.study.preflight import ensure_trains
from hpo.study.runner import run_study
from hpo.sweepfile.dump import dump_sweep
from tracking.digest import store_sources
from tracking.lineage import git_state, machine_description, package_versions

WORKER = "hpo.study.worker"
"""The module whose functions are the entry points."""

PRELOAD = (WORKER, "hpo.training.warm")
"""What the warm server imports, so that no attempt has to."""

SOURCES = (Path(hpo.__file__).parent, Path(tracking.__file__).parent)
"""The packages whose code decides what a built-in trial computes."""


class View(Protocol):
    """Shows people what is being done."""

    def take(self, event: StudyEvent) -> None:
        """Show an event of the study."""
        ...

    def say(self, text: str) -> None:
        """Show a line."""
        ...


@contextlib.contextmanager
def open_executor(
    execution: Execution,
    inventory: Inventory | None = None,
    num_devices: int = 1,
    num_threads: int | None = None,
) -> Iterator[ProcessExecutor]:
    """Run jobs on this machine, each on so many devices, for as long as the context lasts.

    Args:
        execution: how many workers, on which devices.
        inventory: what there is; this machine's own when None.
        num_devices: of each job.
        num_threads: of each job; as many as the cores allow when None.
    """
    slots = place(execution, inventory or take_inventory(), num_devices)
    if num_threads is not None:
        slots = tuple(dataclasses.replace(slot, num_threads=num_threads) for slot in slots)
    executor = ProcessExecutor(slots, _launcher(), SlotPool(slots))
    try:
        yield executor
    finally:
        executor.close()


def _launcher() -> Launcher:
    # Forking is unsafe on macOS once system frameworks are loaded, and torch loads them.
    return ForkLauncher(PRELOAD) if sys.platform == "linux" else SpawnLauncher()


def stored_distributions(sweep: Sweep) -> dict[str, str]:
    """Return Optuna's distribution of each varied parameter, as the ledger keeps it."""
    return {
        parameter.name: distribution_json(parameter)
        for parameter in stored_space(sweep).parameters
    }


def create_study(ledger: Ledger, sweep: Sweep, source: str, clock: Clock) -> StudyRow:
    """Add a study for a sweep and return it.

    Raises:
        NotFoundError: the weights that its trials begin from are not there.
    """
    check_beginnings(sweep, ledger)
    ledger.create_study(
        NewStudy(
            uid=uuid.uuid4().hex[:12],
            name=sweep.study,
            document=json.dumps(dump_sweep(sweep)),
            source=source,
            directions=tuple(objective.direction for objective in sweep.objectives),
            distributions=stored_distributions(sweep),
            created_at=clock.now().isoformat(),
        )
    )
    return archive.find_row(ledger, sweep.study)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMaker:
    """Turns attempts of a study into training jobs."""

    home: Home
    sweep: Sweep
    environment: Environment

    def __call__(self, trial: Trial, key: AttemptKey, slot: Slot) -> Job:
        """Return the job that trains `trial` in `slot`, from its last checkpoint if it has one."""
        study = self.sweep.study
        path = self.home.lineage(study, trial.number)
        if not path.exists():
            lineage = lineage_of(
                self.sweep, trial.plan, self.environment, slot.device, slot.num_threads
            )
            lineage.publish(path)
        payload = {
            "home": str(self.home.root),
            "folder": str(self.home.trial(study, trial.number).relative_to(self.home.root)),
            "resume": _published(trial),
            "request": training_request(self.home, self.sweep, trial, slot),
        }
        return Job(
            attempts=(key,),
            entry_point=f"{WORKER}:run_attempt",
            payload=payload,
            log_path=self.home.attempt_log(study, trial.number, key.attempt),
        )


def _published(trial: Trial) -> dict[str, Any] | None:
    return dataclasses.asdict(trial.last) if trial.last else None


def training_request(home: Home, sweep: Sweep, trial: Trial, slot: Slot) -> dict[str, Any]:
    """Return everything that decides a trial's result, as `hpo.study.worker` reads it."""
    return {
        "config": dict(trial.plan.config),
        "seeds": trial_seeds(sweep.seed, trial.plan.replicate),
        "split_seed": split_seed(sweep.seed),
        "objective": dataclasses.asdict(sweep.objective),
        "device": slot.device,
        "num_threads": slot.num_threads,
        "cache_dir": str(home.cache),
        "init_from": beginning_of(trial.plan.config, home),
    }


def baseline_request(home: Home, sweep: Sweep, slot: Slot) -> dict[str, Any]:
    """Return the training request of a sweep's baseline, first replicate."""
    plan = PlannedTrial(
        number=0,
        params={name: sweep.baseline[name] for name in sweep.space.names},
        config=sweep.baseline,
        replicate=0,
        role=Role.BASELINE,
    )
    return training_request(home, sweep, Trial(plan=plan, state=TrialState.WAITING), slot)


def prepare_data(executor: Executor, home: Home, sweep: Sweep) -> dict[str, Any]:
    """Decode and split the sweep's data, once; return its card."""
    payload = {
        "config": dict(sweep.baseline),
        "cache_dir": str(home.cache),
        "split_seed": split_seed(sweep.seed),
    }
    return call(executor, f"{WORKER}:prepare", payload, home.log)


def environment_of(home: Home, data_fingerprint: str) -> Environment:
    """Describe what attempts run under, and keep the package sources in the home."""
    revision, is_dirty = git_state(Path.cwd())
    return Environment(
        code_digest=store_sources(SOURCES, home.code),
        data_fingerprint=data_fingerprint,
        git_revision=revision,
        git_is_dirty=is_dirty,
        versions=dict(package_versions()),
        machine=dict(machine_description()),
    )


def conduct(  # the parts of a run, named at the one call
    row: StudyRow,
    *,
    home: Home,
    ledger: Ledger,
    clock: Clock,
    view: View,
    is_preflighting: bool = False,
) -> Study:
    """Run a study whose owner this process is, until it ends or is asked to stop.

    Returns:
        The study as it stands then.

    Raises:
        PreflightFailedError: the baseline was tried first and does not train.
    """
    sweep = archive.sweep_of(row)
    ledger.request_stop(row.uid, None)  # one that is made from now on is meant for this run
    with contextlib.ExitStack() as stack:
        mirror = stack.enter_context(Mirror.open(home, row.uid, sweep))
        num_devices = devices_per_trial(sweep)
        history = History(ledger.trials(row.uid))
        begun = next((trial for trial in history.trials if trial.num_attempts), None)
        earlier = ledger.attempts(row.uid, begun.number)[0] if begun else None
        # Sums differ between thread counts: a study keeps the one that it began with.
        executor = stack.enter_context(
            open_executor(
                sweep.execution,
                num_devices=num_devices,
                num_threads=earlier.num_threads if earlier else None,
            )
        )
        sampler = make_sampler(sweep)
        view.say(f"preparing {sweep.baseline.get('data', 'data')}")
        card = prepare_data(executor, home, sweep)
        if earlier is not None:
            check_data(earlier.environment.data_fingerprint, card["fingerprint"])
        environment = environment_of(home, card["fingerprint"])
        if is_preflighting:
            request = baseline_request(home, sweep, executor.slots[0])
            ensure_trains(executor, request, environment, home, view.say)
        mirror.begin(archive.load(ledger, row), environment, ledger)
        interruption = stack.enter_context(interruptible())
        num_threads = executor.slots[0].num_threads
        view.say(
            f"{len(executor.slots)} workers on {executor.slots[0].device},"
            f" {num_threads} thread{'s' if num_threads > 1 else ''} each"
        )
        run_study(
            StudyParts(
                uid=row.uid,
                sweep=sweep,
                history=history,
                ledger=ledger,
                sampler=sampler,
                pruner=make_pruner(sweep),
                executor=executor,
                make_job=JobMaker(home=home, sweep=sweep, environment=environment),
                environment=environment,
                clock=clock,
                interruption=interruption,
                subscribers=[mirror.take, view.take],
                running_s=row.running_s,
            )
        )
        study = archive.load(ledger, archive.find_row(ledger, row.name))
        view.say("waiting until MLflow has the last records")
        remark = mirror.end(study, conclude(study))
        if remark:
            view.say(remark)
    return study


def check_data(earlier: str, fingerprint: str) -> None:
    """Check that the data is what the study's earlier trials were trained on.

    Raises:
        UsageError: it is not; trials on different data must not be compared.
    """
    if earlier != fingerprint:
        raise UsageError(
            f"the data has changed: its fingerprint is {fingerprint[:12]}, earlier trials were"
            f" trained on {earlier[:12]}; put the old data back, or run it as another study with"
            " --new-name"
        )


def is_spent(row: StudyRow, ledger: Ledger) -> bool:
    """Tell whether a study has nothing left to run."""
    if row.state is not StudyState.FINISHED:
        return False
    trials = ledger.trials(row.uid)
    if any(not trial.state.is_finished for trial in trials):
        return False
    return not make_sampler(archive.sweep_of(row)).propose(trials)
