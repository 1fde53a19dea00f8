"""What durable orchestration costs a trial: ask, ten reports with a decision each, tell.

Four ways of doing the same bookkeeping, without training, taken in turns in one run:

- `optuna_sqlite`: plain Optuna on its default SQLite storage;
- `optuna_memory`: plain Optuna in memory, which keeps nothing;
- `hpo_sqlite`: the conductor's real loop, every event durable before it is answered;
- `hpo_postgres`: the same over PostgreSQL, where its server's binaries are installed;

each with random search, the median rule and trials of ten epochs. Only ratios within one run mean
anything: `python benchmarks/ledger.py` prints them and writes `benchmarks/results/ledger.json`.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import optuna

from hpo.clock import SystemClock
from hpo.domain.attempt import Environment
from hpo.domain.decision import Decision
from hpo.domain.objective import Objective
from hpo.domain.search_space import Choices, Range, SearchSpace
from hpo.domain.sweep import (
    Budget,
    Execution,
    MedianPruning,
    RandomSearch,
    Sweep,
    Tracking,
)
from hpo.domain.trial import Measurement, Trial
from hpo.execution.executor import Arrival, Job, JobEnded, Slot
from hpo.execution.message import AttemptKey, Body, Finished, Message, Report
from hpo.execution.signals import Interruption
from hpo.search.distributions import distribution_json, stored_space
from hpo.search.pruner import make_pruner
from hpo.search.sampler import make_sampler
from hpo.storage.ledger import NewStudy
from hpo.storage.sql_ledger import SqlLedger
from hpo.study.history import History
from hpo.study.runner import StudyParts, run_study
from hpo.sweepfile.dump import dump_sweep

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "ledger.json"
REQUIRED = 0.10
"""Of plain Optuna on SQLite."""

NUM_EPOCHS = 10
LOW, HIGH = 1e-5, 1e-1
OPTIMIZERS = ("adamw", "sgd", "lion")


def loss(number: int, epoch: int) -> float:
    """Return a made-up loss: each trial is better than the ones before, so that none is pruned."""
    return (1 - number * 1e-6) / epoch


# --- ours


class InstantExecutor:
    """One slot whose attempts train in no time; fulfils `Executor`."""

    slots = (Slot(index=0, device="cpu", visible_device=None, num_threads=1),)

    def __init__(self) -> None:
        self._job: Job | None = None
        self._arrivals: list[Arrival] = []
        self._sequence = 0

    def take_slot(self) -> Slot | None:
        """Return the slot, when it is free."""
        return None if self._job else self.slots[0]

    def submit(self, job: Job, slot: Slot) -> None:  # noqa: ARG002
        """Start a job: its first epoch is measured."""
        self._job, self._sequence = job, 0
        self._measure()

    def poll(self, timeout_s: float) -> list[Arrival]:  # noqa: ARG002
        """Return what arrived."""
        arrivals, self._arrivals = self._arrivals, []
        return arrivals

    def answer(self, message: Message, decision: Decision) -> None:
        """Go on to the next epoch, or end."""
        if decision.is_continue and message.sequence < NUM_EPOCHS:
            self._measure()
        else:
            kind = "finished" if decision.is_continue else "ended_by_decision"
            self._say(Finished(result={"kind": kind, "message": "", "weights_sha256": None}))
            self._end()

    def kill(self, key: AttemptKey) -> None:
        """Nothing is ever killed here."""

    def close(self) -> None:
        """Nothing is held."""

    def _measure(self) -> None:
        assert self._job is not None  # noqa: S101  # the one place where a job runs
        self._sequence += 1
        value = loss(self._job.attempts[0].trial, self._sequence)
        measurement = Measurement(
            epoch=self._sequence,
            examples_seen=1000 * self._sequence,
            metrics={"val_loss": value, "train_loss": value / 2, "val_accuracy": 1 - value / 10},
        )
        self._say(Report(measurement=measurement))

    def _say(self, body: Body) -> None:
        assert self._job is not None  # noqa: S101
        key = self._job.attempts[0]
        self._arrivals.append(Message(key=key, sequence=self._sequence, body=body))

    def _end(self) -> None:
        assert self._job is not None  # noqa: S101
        self._arrivals.append(JobEnded(attempts=self._job.attempts, exit_code=0))
        self._job = None


def make_sweep(study: str, num_trials: int) -> Sweep:
    """Return a random search with the median rule."""
    return Sweep(
        study=study,
        objectives=(Objective(metric="val_loss"),),
        strategy=RandomSearch(),
        space=SearchSpace(
            parameters=(
                Range(name="lr", low=LOW, high=HIGH, is_log=True),
                Choices(name="optimizer", values=OPTIMIZERS),
            )
        ),
        baseline={"lr": 1e-3, "optimizer": "adamw", "epochs": NUM_EPOCHS},
        pruner=MedianPruning(),
        budget=Budget(num_trials=num_trials),
        execution=Execution(),
        tracking=Tracking(),
    )


def make_job(trial: Trial, key: AttemptKey, slot: Slot) -> Job:  # noqa: ARG001
    """Return a job for `InstantExecutor`."""
    return Job(
        attempts=(key,),
        entry_point="nowhere:nothing",
        payload={},
        log_path=Path(os.devnull),
    )


def conduct(ledger: SqlLedger, study: str, num_trials: int) -> float:
    """Run a study of ours; return the seconds that it took, its creation not counted."""
    sweep, clock = make_sweep(study, num_trials), SystemClock()
    ledger.create_study(
        NewStudy(
            uid=study,
            name=study,
            document=json.dumps(dump_sweep(sweep)),
            source="",
            directions=(sweep.objective.direction,),
            distributions={p.name: distribution_json(p) for p in stored_space(sweep).parameters},
            created_at=clock.now().isoformat(),
        )
    )
    parts = StudyParts(
        uid=study,
        sweep=sweep,
        history=History(()),
        ledger=ledger,
        sampler=make_sampler(sweep),
        pruner=make_pruner(sweep),
        executor=InstantExecutor(),
        make_job=make_job,
        environment=Environment(
            code_digest="c0de" * 16,
            data_fingerprint="da7a" * 16,
            git_revision=None,
            git_is_dirty=False,
            versions={"python": "3.11"},
            machine={"cpu": "a processor"},
        ),
        clock=clock,
        interruption=Interruption(),
        subscribers=[],
        running_s=0.0,
    )
    began_s = time.perf_counter()
    run_study(parts)
    return time.perf_counter() - began_s


@contextlib.contextmanager
def ours(url: str) -> Iterator[Callable[[str, int], float]]:
    """Yield what runs a study of ours in the ledger at `url`."""
    ledger = SqlLedger(url)
    yield lambda study, num_trials: conduct(ledger, study, num_trials)
    ledger.close()


# --- plain Optuna


def optimize(storage: optuna.storages.BaseStorage | str, study: str, num_trials: int) -> float:
    """Run a study by ask and tell; return the seconds that it took, its creation not counted."""
    plain = optuna.create_study(
        storage=storage,
        study_name=study,
        sampler=optuna.samplers.RandomSampler(seed=0),
        pruner=optuna.pruners.MedianPruner(),
    )
    began_s = time.perf_counter()
    for _ in range(num_trials):
        trial = plain.ask()
        trial.suggest_float("lr", LOW, HIGH, log=True)
        trial.suggest_categorical("optimizer", OPTIMIZERS)
        for epoch in range(1, NUM_EPOCHS + 1):
            trial.report(loss(trial.number, epoch), epoch)
            if trial.should_prune():
                plain.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            plain.tell(trial, loss(trial.number, NUM_EPOCHS))
    return time.perf_counter() - began_s


@contextlib.contextmanager
def optunas(url: str | None) -> Iterator[Callable[[str, int], float]]:
    """Yield what runs a study in a storage of plain Optuna; in memory without a URL."""
    if url is None:
        yield lambda study, num_trials: optimize(
            optuna.storages.InMemoryStorage(), study, num_trials
        )
        return
    storage = optuna.storages.RDBStorage(url)
    yield lambda study, num_trials: optimize(storage, study, num_trials)
    storage.remove_session()
    storage.engine.dispose()


# --- the comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one way costs a trial."""

    ms: list[float]
    """Milliseconds a trial, one for each repeat."""
    ratios: list[float]
    """Of plain Optuna on SQLite, each within its own repeat."""

    @property
    def ratio(self) -> float:
        """The median."""
        return statistics.median(self.ratios)


def compare(num_repeats: int, num_trials: int, *, has_postgres: bool) -> dict[str, Cost]:
    """Measure all ways, in turns."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    times_s: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hpo-bench-")))
        ways = {
            "optuna_sqlite": optunas(f"sqlite:///{folder / 'optuna.db'}"),
            "optuna_memory": optunas(None),
            "hpo_sqlite": ours(f"sqlite:///{folder / 'hpo.db'}"),
        }
        if has_postgres:
            from tests.fakes.postgres import private_server, server_binaries

            if binaries := server_binaries():
                ways["hpo_postgres"] = ours(stack.enter_context(private_server(binaries)))
        runs = {name: stack.enter_context(way) for name, way in ways.items()}
        for run in runs.values():  # imports, caches and first pages, not counted
            run("warm", 2)
        for repeat in range(num_repeats):
            for name, run in runs.items():
                times_s.setdefault(name, []).append(run(f"study-{repeat}", num_trials))
    plain = times_s["optuna_sqlite"]
    return {
        name: Cost(
            ms=[1000 * s / num_trials for s in seconds],
            ratios=[s / of for s, of in zip(seconds, plain, strict=True)],
        )
        for name, seconds in times_s.items()
    }


def show(costs: dict[str, Cost]) -> None:
    """Print the table."""
    print(f"{'way':<16}{'ms a trial':>12}{'ratio':>9}   spread of ratios")
    for name, cost in costs.items():
        spread = f"{min(cost.ratios):.3f} to {max(cost.ratios):.3f}"
        print(f"{name:<16}{statistics.median(cost.ms):>12.2f}{cost.ratio:>9.3f}   {spread}")


def main() -> int:
    """Measure, print, write; fail when ours costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--no-postgres", action="store_true")
    options = parser.parse_args()
    costs = compare(options.repeats, options.trials, has_postgres=not options.no_postgres)
    show(costs)
    document = {
        "required_ratio": REQUIRED,
        "num_trials": options.trials,
        "num_epochs": NUM_EPOCHS,
        "ways": {
            name: {"ms_a_trial": cost.ms, "ratios": cost.ratios, "ratio": cost.ratio}
            for name, cost in costs.items()
        },
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    ratio = costs["hpo_sqlite"].ratio
    print(
        f"required {REQUIRED:.2f}, measured {ratio:.3f}: {'ok' if ratio <= REQUIRED else 'MISS'}"
    )
    return 0 if ratio <= REQUIRED else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
