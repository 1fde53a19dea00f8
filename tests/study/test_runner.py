"""Whole studies in virtual time, over the real ledger: what the conductor writes and decides."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hpo.domain import event as ev
from hpo.domain.study import StudyState
from hpo.domain.sweep import Budget, MedianPruning, OneAtATime, Sweep, Tpe
from hpo.domain.trial import CheckpointRef, FailureKind, Measurement, Trial, TrialState
from hpo.execution.executor import Job, Slot
from hpo.execution.message import (
    AttemptKey,
    CheckpointWritten,
    Failed,
    Finished,
    Progress,
    Report,
    Started,
)
from hpo.execution.signals import Interruption
from hpo.search.distributions import distribution_json, stored_space
from hpo.search.pruner import make_pruner
from hpo.search.sampler import make_sampler
from hpo.storage.ledger import NewStudy, StudyRow
from hpo.storage.sql_ledger import SqlLedger
from hpo.study.history import History
from hpo.study.runner import StudyParts, run_study
from hpo.sweepfile.dump import dump_sweep
from tests.fakes.clock import FakeClock
from tests.fakes.executor import Ask, Script, ScriptedExecutor, Tell, Work
from tests.fakes.studies import ENVIRONMENT
from tests.study.simulation import TWELVE_POINTS, make_sweep

UID = "study"
EPOCH_S = 60.0

Loss = Callable[[int, int, int], float]
"""The loss of a trial's attempt after an epoch."""


def falling(number: int, attempt: int, epoch: int) -> float:
    """The baseline is best; every epoch is better than the one before."""
    return (1 + number / 10) / epoch


def checkpoint(number: int, kind: str, epoch: int) -> CheckpointWritten:
    name = f"trials/simulated/{number}/{kind}-{epoch:05d}"
    reference = CheckpointRef(uri=name, sha256=f"{epoch:064d}", epoch=epoch, num_bytes=1)
    return CheckpointWritten(checkpoint_kind=kind, checkpoint=reference)


@dataclass
class Trainer:
    """What attempts do: train as `hpo.training.loop` does, or fail as told."""

    loss: Loss = falling
    dies: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """The epoch in which an attempt (trial, attempt) dies."""
    says: Mapping[int, Failed | Finished] = field(default_factory=dict)
    """What a trial says in its second epoch instead of a report, by number."""
    lacks_metric: frozenset[int] = frozenset()
    keeps_epochs: int | None = None
    """Attempts resume from this epoch, when they have a later checkpoint; None: from that."""

    def __call__(self, job: Job) -> Script:
        key, payload = job.attempts[0], job.payload
        number, resumed = key.trial, payload["resume"]
        if self.keeps_epochs is not None:
            resumed = min(resumed, self.keeps_epochs)
        yield Tell(Started(resumed_epoch=resumed))
        for epoch in range(resumed + 1, payload["epochs"] + 1):
            yield Tell(Progress(epoch=epoch, fraction=0.5))
            yield Work(EPOCH_S)
            if self.dies.get((number, key.attempt)) == epoch:
                return -11
            if number in self.says and epoch == 2:
                yield Tell(self.says[number])
                return 0
            name = "train_loss" if number in self.lacks_metric else "val_loss"
            metrics = {name: self.loss(number, key.attempt, epoch), "epoch_s": job.payload["s"]}
            measurement = Measurement(epoch=epoch, examples_seen=epoch * 100, metrics=metrics)
            decision = yield Ask(Report(measurement=measurement))
            yield Ask(checkpoint(number, "best", epoch))
            yield Ask(checkpoint(number, "last", epoch))
            if not decision.is_continue:
                yield Tell(self._finished("ended_by_decision", number, epoch))
                return 0
        yield Tell(self._finished("finished", number, payload["epochs"]))
        return 0

    def _finished(self, kind: str, number: int, epoch: int) -> Finished:
        digest = f"{number:032d}{epoch:032d}"
        return Finished(result={"kind": kind, "message": "", "weights_sha256": digest})


class Study:
    """One study in one ledger, that may be run several times."""

    def __init__(self, ledger: SqlLedger, sweep: Sweep) -> None:
        self.ledger = ledger
        self.sweep = sweep
        self.clock = FakeClock()
        self.events: list[ev.StudyEvent] = []
        self.executor = ScriptedExecutor(1, self.clock, Trainer())
        self.interruption = Interruption()
        parameters = stored_space(sweep).parameters
        ledger.create_study(
            NewStudy(
                uid=UID,
                name=sweep.study,
                document=json.dumps(dump_sweep(sweep)),
                source="",
                directions=(sweep.objective.direction,),
                distributions={p.name: distribution_json(p) for p in parameters},
                created_at=self.clock.now().isoformat(),
            )
        )

    def run(
        self,
        trainer: Trainer | None = None,
        *,
        slots: int = 1,
        on_event: Callable[[ev.StudyEvent], None] = lambda _: None,
    ) -> StudyState:
        """Run it as a new process would; the history is held to the ledger at every event."""
        history = History(self.ledger.trials(UID))
        self.interruption = Interruption()
        self.executor = ScriptedExecutor(slots, self.clock, trainer or Trainer())

        def compare(event: ev.StudyEvent) -> None:
            assert history.trials == self.ledger.trials(UID), event

        return run_study(
            StudyParts(
                uid=UID,
                sweep=self.sweep,
                history=history,
                ledger=self.ledger,
                sampler=make_sampler(self.sweep),
                pruner=make_pruner(self.sweep),
                executor=self.executor,
                make_job=self._job,
                environment=ENVIRONMENT,
                clock=self.clock,
                interruption=self.interruption,
                subscribers=[compare, self.events.append, on_event],
                running_s=self.row.running_s,
            )
        )

    def _job(self, trial: Trial, key: AttemptKey, slot: Slot) -> Job:
        payload = {
            "epochs": trial.plan.config["epochs"],
            "resume": trial.last.epoch if trial.last else 0,
            "s": self.clock.monotonic(),  # a metric of time differs between two tries
        }
        return Job(
            attempts=(key,), entry_point="none:none", payload=payload, log_path=Path("none")
        )

    @property
    def row(self) -> StudyRow:
        return self.ledger.studies()[0]

    @property
    def trials(self) -> tuple[Trial, ...]:
        return self.ledger.trials(UID)

    def states(self) -> list[str]:
        return [trial.state.value for trial in self.trials]

    def of(self, kind: type[ev.StudyEvent]) -> list[ev.StudyEvent]:
        return [event for event in self.events if isinstance(event, kind)]

    def interrupt_at(
        self, number: int, epoch: int, times: int = 1
    ) -> Callable[[ev.StudyEvent], None]:
        """Press Ctrl-C when a trial has measured an epoch."""

        def press(event: ev.StudyEvent) -> None:
            if isinstance(event, ev.Measured) and (event.number, event.measurement.epoch) == (
                number,
                epoch,
            ):
                self.interruption.count += times

        return press


@pytest.fixture(scope="module")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a ledger to copy; making one takes half a second."""
    path = tmp_path_factory.mktemp("ledger") / "hpo.db"
    SqlLedger(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def create(empty_ledger: Path, tmp_path: Path) -> Iterator[Callable[..., Study]]:
    """Return what makes a study of a sweep of six trials, or of the sweep given."""
    ledger = SqlLedger(f"sqlite:///{shutil.copy(empty_ledger, tmp_path / 'hpo.db')}")

    def create(sweep: Sweep | None = None, **settings: object) -> Study:
        plain = {"space": TWELVE_POINTS, "epochs": 3, **settings}
        return Study(ledger, sweep or make_sweep(OneAtATime(), **plain))  # type: ignore[arg-type]

    yield create
    ledger.close()


Create = Callable[..., Study]


def test_a_one_at_a_time_plan_is_done_once_each(create: Create) -> None:
    study = create()
    assert study.run() is StudyState.FINISHED
    assert study.states() == ["COMPLETE"] * 6
    assert len({trial.plan.config_id for trial in study.trials}) == 6
    assert [job.attempts[0].trial for job in study.executor.submitted] == list(range(6))
    baseline = study.trials[0]
    assert [m.epoch for m in baseline.measurements] == [1, 2, 3]
    assert (baseline.value, baseline.best_epoch, baseline.num_attempts) == (1 / 3, 3, 1)
    assert baseline.weights_sha256 == f"{0:032d}{3:032d}"
    assert baseline.last is not None
    assert baseline.last.epoch == 3
    assert (study.row.state, study.row.reason) == (
        StudyState.FINISHED,
        "every planned trial has ended",
    )
    assert study.row.running_s == pytest.approx(6 * 3 * EPOCH_S)
    assert study.ledger.notes(UID) == {}


def test_a_finished_study_that_runs_again_trains_nothing(create: Create) -> None:
    study = create()
    study.run()
    before = study.trials
    assert study.run() is StudyState.FINISHED
    assert study.executor.submitted == []
    assert study.trials == before


def test_slots_run_side_by_side(create: Create) -> None:
    study = create()
    assert study.run(slots=3) is StudyState.FINISHED
    assert study.states() == ["COMPLETE"] * 6
    assert study.row.running_s == pytest.approx(2 * 3 * EPOCH_S)


def test_a_hopeless_trial_is_pruned_with_its_reason_and_the_study_goes_on(create: Create) -> None:
    study = create(pruner=MedianPruning(startup_trials=2, warmup_epochs=0))
    assert study.run() is StudyState.FINISHED
    pruned = [trial for trial in study.trials if trial.state is TrialState.PRUNED]
    assert pruned
    assert "COMPLETE" in study.states()
    for trial in pruned:
        assert trial.num_epochs == 1
        assert trial.value == trial.measurements[0].metrics["val_loss"]
        assert "val_loss" in trial.reason
        assert trial.weights_sha256 == f"{trial.number:032d}{1:032d}"
    measured = [e for e in study.of(ev.Measured) if isinstance(e, ev.Measured)]
    assert sum(not e.decision.is_continue for e in measured) == len(pruned)


def test_a_loss_that_is_not_finite_fails_its_trial_alone(create: Create) -> None:
    def loss(number: int, attempt: int, epoch: int) -> float:
        is_bad = number in (1, 3) and epoch == 2
        return float("nan" if number == 1 else "-inf") if is_bad else falling(number, 1, epoch)

    study = create()
    assert study.run(Trainer(loss=loss)) is StudyState.FINISHED
    assert study.states() == ["COMPLETE", "FAIL", "COMPLETE", "FAIL", "COMPLETE", "COMPLETE"]
    for number, word in ((1, "nan"), (3, "-inf")):
        trial = study.trials[number]
        assert trial.failure is FailureKind.DIVERGED
        assert trial.reason == f"val_loss is {word} at epoch 2"
        assert (trial.value, trial.best_epoch, trial.num_epochs) == (None, None, 1)
    assert [key.trial for key in study.executor.killed] == [1, 3]


@pytest.mark.parametrize(
    ("said", "failure", "reason"),
    [
        (
            Finished(result={"kind": "diverged", "message": "loss is nan in batch 3"}),
            FailureKind.DIVERGED,
            "loss is nan in batch 3",
        ),
        (Failed(failure=FailureKind.OOM, text="out of memory"), FailureKind.OOM, "out of memory"),
        (Failed(failure=FailureKind.BUG, text="E: x"), FailureKind.BUG, "E: x"),
    ],
    ids=["diverged", "out of memory", "a bug"],
)
def test_what_an_attempt_says_of_its_failure_is_kept(
    create: Create, said: Failed | Finished, failure: FailureKind, reason: str
) -> None:
    study = create()
    assert study.run(Trainer(says={2: said})) is StudyState.FINISHED
    trial = study.trials[2]
    assert (trial.state, trial.failure, trial.reason) == (TrialState.FAIL, failure, reason)
    assert study.states().count("COMPLETE") == 5


def test_a_process_that_dies_fails_its_trial_as_a_crash(create: Create) -> None:
    study = create()
    assert study.run(Trainer(dies={(4, 1): 2}), slots=2) is StudyState.FINISHED
    trial = study.trials[4]
    assert (trial.state, trial.failure) == (TrialState.FAIL, FailureKind.CRASH)
    assert trial.reason == "its process was killed by SIGSEGV"
    assert study.states().count("COMPLETE") == 5


def test_a_report_without_the_objective_is_a_bug_of_the_training(create: Create) -> None:
    study = create()
    study.run(Trainer(lacks_metric=frozenset({5})))
    trial = study.trials[5]
    assert (trial.failure, trial.reason) == (FailureKind.BUG, "its report lacks val_loss")
    assert trial.measurements == ()
    assert [key.trial for key in study.executor.killed] == [5]


def test_a_study_all_of_whose_trials_fail_has_failed(create: Create) -> None:
    study = create()
    dies = {(number, 1): 1 for number in range(6)}
    assert study.run(Trainer(dies=dies)) is StudyState.FAILED
    assert study.row.reason == "all 6 trials failed"


# --- interruptions


def test_ctrl_c_stops_after_the_running_epochs_and_the_next_run_does_only_what_is_missing(
    create: Create,
) -> None:
    study = create()
    state = study.run(slots=2, on_event=study.interrupt_at(2, 1))
    assert state is StudyState.STOPPED
    assert (study.row.state, study.row.reason) == (StudyState.STOPPED, "interrupted")
    assert study.states() == ["COMPLETE"] * 2 + ["WAITING"] * 4
    begun = {trial.number: trial.num_epochs for trial in study.trials if trial.num_epochs < 3}
    assert begun == {2: 2, 3: 1, 4: 0, 5: 0}  # 3 reported after the signal
    assert all(trial.token is None for trial in study.trials)
    assert study.executor.killed == []

    done = {trial.number: trial.measurements for trial in study.trials}
    assert study.run(slots=2) is StudyState.FINISHED
    assert study.states() == ["COMPLETE"] * 6
    assert [job.attempts[0].trial for job in study.executor.submitted] == [2, 3, 4, 5]
    assert [job.payload["resume"] for job in study.executor.submitted] == [2, 1, 0, 0]
    assert [trial.num_attempts for trial in study.trials] == [1, 1, 2, 2, 1, 1]
    for trial in study.trials:
        assert [m.epoch for m in trial.measurements] == [1, 2, 3]
        assert trial.measurements[: len(done[trial.number])] == done[trial.number]
    assert study.ledger.notes(UID) == {}


def test_an_attempt_in_its_last_epoch_at_ctrl_c_completes(create: Create) -> None:
    study = create()
    assert study.run(on_event=study.interrupt_at(0, 2)) is StudyState.STOPPED
    assert study.states() == ["COMPLETE"] + ["WAITING"] * 5


def test_a_second_ctrl_c_kills_and_loses_no_more_than_the_running_epochs(create: Create) -> None:
    study = create()
    state = study.run(slots=2, on_event=study.interrupt_at(2, 1, times=2))
    assert state is StudyState.STOPPED
    assert sorted(key.trial for key in study.executor.killed) == [2, 3]
    assert study.states() == ["COMPLETE"] * 2 + ["WAITING"] * 4
    assert all(trial.failure is None for trial in study.trials)
    assert study.run(slots=2) is StudyState.FINISHED
    assert study.states() == ["COMPLETE"] * 6


def test_a_stop_on_request_stops_the_study_once(create: Create) -> None:
    study = create()

    def ask(event: ev.StudyEvent) -> None:
        if isinstance(event, ev.TrialEnded) and event.number == 1:
            study.ledger.request_stop(UID, event.at)

    assert study.run(on_event=ask) is StudyState.STOPPED
    assert study.row.reason == "stopped on request"
    assert study.states().count("COMPLETE") == 2
    assert study.run() is StudyState.FINISHED  # the request does not outlive its run


class ConductorDiedError(Exception):
    """Stands for the death of the conductor's process."""


def die_at(number: int, epoch: int) -> Callable[[ev.StudyEvent], None]:
    def die(event: ev.StudyEvent) -> None:
        if isinstance(event, ev.Measured) and (event.number, event.measurement.epoch) == (
            number,
            epoch,
        ):
            raise ConductorDiedError

    return die


def test_what_a_dead_conductor_left_running_waits_again_and_is_finished_once(
    create: Create,
) -> None:
    study = create()
    with pytest.raises(ConductorDiedError):
        study.run(slots=2, on_event=die_at(2, 2))
    assert study.states() == ["COMPLETE"] * 2 + ["RUNNING"] * 2 + ["WAITING"] * 2
    tokens = [trial.token for trial in study.trials[2:4]]
    assert study.row.state is StudyState.RUNNING
    assert study.run(slots=2) is StudyState.FINISHED
    assert study.states() == ["COMPLETE"] * 6
    assert [trial.num_attempts for trial in study.trials] == [1, 1, 2, 2, 1, 1]
    for number, token in zip((2, 3), tokens, strict=True):
        first, second = study.ledger.attempts(UID, number)
        assert (first.token, first.outcome) == (token, "its conductor was gone")
        assert second.token != token
        assert [m.epoch for m in study.trials[number].measurements] == [1, 2, 3]
    assert study.ledger.notes(UID) == {}


def test_what_a_revoked_attempt_still_says_changes_nothing(create: Create) -> None:
    study = create()
    with pytest.raises(ConductorDiedError):
        study.run(on_event=die_at(0, 1))
    revoked = study.trials[0].token
    assert revoked is not None
    said: list[int] = []

    def late(event: ev.StudyEvent) -> None:
        if isinstance(event, ev.Measured) and event.number == 0:
            measurement = Measurement(epoch=3, examples_seen=1, metrics={"val_loss": 0.0})
            measured = replace(event, token=revoked, measurement=measurement)
            ended = ev.TrialEnded(
                number=0,
                token=revoked,
                state=TrialState.COMPLETE,
                reason="",
                failure=None,
                value=0.0,
                best_epoch=3,
                weights_sha256=None,
                at=event.at,
            )
            said.append(study.ledger.apply(UID, [measured, ended]))

    assert study.run(on_event=late) is StudyState.FINISHED
    assert said == [2, 2]  # epochs 2 and 3 of the second attempt; all refused
    assert study.trials[0].value == falling(0, 2, 3)


# --- epochs trained again


def test_epochs_that_come_out_equal_again_are_written_once(create: Create) -> None:
    study = create()
    study.run(on_event=study.interrupt_at(0, 1))
    assert study.trials[0].num_epochs == 2
    recorded = study.trials[0].measurements
    assert study.run(Trainer(keeps_epochs=0)) is StudyState.FINISHED
    assert study.trials[0].measurements[:2] == recorded
    assert [m.epoch for m in study.trials[0].measurements] == [1, 2, 3]
    assert study.ledger.notes(UID) == {}


def test_epochs_that_come_out_unequal_are_noted_and_the_record_stays(create: Create) -> None:
    def loss(number: int, attempt: int, epoch: int) -> float:
        return falling(number, 1, epoch) + (0.001 if attempt == 2 and epoch == 2 else 0.0)

    study = create()
    study.run(Trainer(loss=loss), on_event=study.interrupt_at(0, 1))
    recorded = study.trials[0].measurements
    assert study.run(Trainer(loss=loss, keeps_epochs=0)) is StudyState.FINISHED
    assert study.trials[0].measurements[:2] == recorded
    notes = study.ledger.notes(UID)
    assert list(notes) == [0]
    assert len(notes[0]) == 1
    assert "not deterministic: epoch 2" in notes[0][0]
    assert "val_loss" in notes[0][0]


def test_an_epoch_trained_again_is_not_judged_again(create: Create) -> None:
    """Pruned there, the trial would have later epochs on record than its weights have seen."""
    pruner = MedianPruning(startup_trials=1, warmup_epochs=0)
    study = create(epochs=5, pruner=pruner)

    def loss(number: int, attempt: int, epoch: int) -> float:
        return 1.0 - 0.01 * epoch if number == 1 else falling(number, 1, epoch)

    # Nothing has ended while trial 1 measures three epochs; later the baseline is far ahead.
    with pytest.raises(ConductorDiedError):
        study.run(Trainer(loss=loss), slots=2, on_event=die_at(1, 3))
    assert study.trials[1].num_epochs == 3
    assert study.run(Trainer(loss=loss, keeps_epochs=0)) is StudyState.FINISHED
    trial = study.trials[1]
    assert (trial.state, trial.num_epochs) == (TrialState.PRUNED, 3)
    assert trial.weights_sha256 == f"{1:032d}{3:032d}"


# --- budgets


def test_the_hours_of_all_runs_together_end_a_study(create: Create) -> None:
    study = create(budget=Budget(hours=7.5 * EPOCH_S / 3600))
    assert study.run(on_event=study.interrupt_at(0, 2)) is StudyState.STOPPED
    assert study.row.running_s == pytest.approx(3 * EPOCH_S)
    assert study.run() is StudyState.FINISHED
    assert study.row.reason == "the budget of 0.125 hours is spent"
    assert study.row.running_s == pytest.approx(8 * EPOCH_S)
    assert study.run() is StudyState.FINISHED
    assert study.executor.submitted == []


def test_a_study_ends_when_its_objective_reaches_the_target(create: Create) -> None:
    study = create(budget=Budget(until=1.1 / 3))
    assert study.run() is StudyState.FINISHED
    assert study.states() == ["COMPLETE"] + ["WAITING"] * 5
    assert study.row.reason == "val_loss reached 0.333333"
    assert study.run() is StudyState.FINISHED
    assert study.executor.submitted == []


# --- tpe


def test_tpe_on_two_slots_proposes_nothing_twice_and_keeps_the_budget(create: Create) -> None:
    sweep = make_sweep(Tpe(startup_trials=4), epochs=1, budget=Budget(num_trials=12))
    study = create(sweep)
    assert study.run(slots=2) is StudyState.FINISHED
    assert study.states() == ["COMPLETE"] * 12
    assert len({trial.plan.config_id for trial in study.trials}) == 12


# --- telling


def test_subscribers_hear_everything_in_order_after_it_is_durable(create: Create) -> None:
    study = create()
    study.run()
    kinds = [type(event) for event in study.events]
    assert kinds[0] is ev.StudyStateChanged
    assert kinds[1] is ev.TrialsPlanned
    assert kinds[-1] is ev.StudyStateChanged
    one = [
        kind
        for kind, event in zip(kinds, study.events, strict=True)
        if getattr(event, "number", None) == 3 and kind is not ev.CheckpointPublished
    ]
    epochs: list[type] = [ev.Progressed, ev.Measured] * 3
    assert one == [ev.AttemptStarted, *epochs, ev.TrialEnded]
