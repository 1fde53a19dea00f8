"""What the conductor does with each message, signal and free slot. `run_study` is its loop."""

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hpo.clock import Clock
from hpo.domain import event as ev
from hpo.domain.attempt import Environment
from hpo.domain.decision import CONTINUE, Action, Decision
from hpo.domain.objective import At
from hpo.domain.study import StudyState
from hpo.domain.sweep import Sweep
from hpo.domain.trial import FailureKind, Measurement, Trial, TrialState
from hpo.execution.executor import Executor, Job, JobEnded, Slot
from hpo.execution.message import (
    AttemptKey,
    CheckpointWritten,
    Failed,
    Finished,
    Message,
    Progress,
    Report,
    Started,
)
from hpo.execution.signals import Interruption
from hpo.search.pruner import Pruner
from hpo.search.sampler import Sampler
from hpo.storage.ledger import Ledger
from hpo.study.history import History
from hpo.study.result_gate import describe_exit, differing, fault_of

STOP_REQUEST_INTERVAL_S = 0.5
"""How often the ledger is asked whether somebody wants the study to stop."""

Subscriber = Callable[[ev.StudyEvent], None]
"""Is told every event after it is durable."""


class JobMaker(Protocol):
    """Turns an attempt into a job."""

    def __call__(self, trial: Trial, key: AttemptKey, slot: Slot) -> Job:
        """Return the job that runs `trial` in `slot`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyParts:
    """Everything that a run of a study works with."""

    uid: str
    sweep: Sweep
    history: History
    ledger: Ledger
    sampler: Sampler
    pruner: Pruner
    executor: Executor
    make_job: JobMaker
    environment: Environment
    clock: Clock
    interruption: Interruption
    subscribers: Sequence[Subscriber]
    running_s: float
    """Wall-clock seconds that earlier runs conducted."""


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """What the conductor remembers of a running attempt."""

    key: AttemptKey
    decision: Decision = CONTINUE
    """The latest one it was given."""
    is_settled: bool = False
    """Whether its end is written; what it says afterwards changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """Why no further trial is started."""

    state: StudyState
    reason: str


class Conductor:
    """The only writer of a study while it runs."""

    def __init__(self, parts: StudyParts) -> None:
        self._parts = parts
        self._history = parts.history
        self._objective = parts.sweep.objective
        self._running: dict[str, _Attempt] = {}
        self._ending: _Ending | None = None
        self._reached: str | None = None
        """The configuration that reached the target, whose replicates are still to finish."""
        self._is_exhausted = False
        self._began_s = parts.clock.monotonic()
        self._asked_s = -math.inf

    # --- the run as a whole

    def begin(self) -> None:
        """Take the study over: whatever an earlier run left RUNNING waits again."""
        at = self._now()
        orphans = [
            ev.AttemptInterrupted(
                number=trial.number, token=trial.token, reason="its conductor was gone", at=at
            )
            for trial in self._history.trials
            if trial.token is not None
        ]
        self._emit(*orphans, self._study_state(StudyState.RUNNING, "running"))
        for trial in self._history.trials:
            for measurement in trial.measurements:
                self._check_target(trial, measurement)

    def end(self) -> StudyState:
        """Write where the study stands and return it."""
        ending = self._ending or self._verdict()
        self._emit(self._study_state(ending.state, ending.reason))
        self._parts.ledger.request_stop(self._parts.uid, None)  # it was heeded
        return ending.state

    def _verdict(self) -> _Ending:
        trials = self._history.trials
        num_failed = sum(trial.state is TrialState.FAIL for trial in trials)
        if trials and num_failed == len(trials):
            return _Ending(state=StudyState.FAILED, reason=f"all {num_failed} trials failed")
        return _Ending(state=StudyState.FINISHED, reason="every planned trial has ended")

    def _study_state(self, state: StudyState, reason: str) -> ev.StudyStateChanged:
        running_s = self._parts.running_s + self._elapsed_s()
        return ev.StudyStateChanged(
            state=state, reason=reason, running_s=running_s, at=self._now()
        )

    def heed_requests(self) -> None:
        """Look at signals, the stop request and the clock."""
        interruption = self._parts.interruption
        if interruption.count > 1:
            for attempt in self._running.values():
                self._parts.executor.kill(attempt.key)
        reason = "interrupted" if interruption.count else ""
        if not reason and self._is_stop_requested():
            reason = "stopped on request"
        if reason and (self._ending is None or self._reached is not None):
            self._reached = None
            self._ending = _Ending(state=StudyState.STOPPED, reason=reason)
        hours = self._parts.sweep.budget.hours
        if hours is not None and self._ending is None:
            spent_h = (self._parts.running_s + self._elapsed_s()) / 3600
            if spent_h >= hours:
                reason = f"the budget of {hours:.4g} hours is spent"
                self._ending = _Ending(state=StudyState.FINISHED, reason=reason)

    def _is_stop_requested(self) -> bool:
        now_s = self._parts.clock.monotonic()
        if now_s - self._asked_s < STOP_REQUEST_INTERVAL_S:
            return False
        self._asked_s = now_s
        return self._parts.ledger.is_stop_requested(self._parts.uid)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing will."""
        is_spent = self._is_exhausted and not self._history.waiting()
        is_over = self._ending is not None and not self._startable()
        return not self._running and (is_spent or is_over)

    # --- starting attempts

    def fill_slots(self) -> None:
        """Start waiting trials, asking the sampler for new ones, while there are free slots."""
        while len(self._running) < len(self._parts.executor.slots):
            waiting = self._startable()
            if not waiting:
                return
            slot = self._parts.executor.take_slot()
            if slot is None:
                return
            self._start(waiting[0], slot)

    def _startable(self) -> list[Trial]:
        """Return what may start; at its target a study finishes that configuration alone."""
        waiting = self._history.waiting()
        if self._ending is None:
            return waiting or self._propose()
        return [trial for trial in waiting if trial.plan.config_id == self._reached]

    def _propose(self) -> list[Trial]:
        planned = self._parts.sampler.propose(self._history.trials)
        self._is_exhausted = not planned
        if planned:
            self._emit(ev.TrialsPlanned(trials=planned))
        return self._history.waiting()

    def _start(self, trial: Trial, slot: Slot) -> None:
        key = AttemptKey(
            trial=trial.number, attempt=trial.num_attempts + 1, token=secrets.token_hex(8)
        )
        self._emit(
            ev.AttemptStarted(
                number=key.trial,
                attempt=key.attempt,
                token=key.token,
                device=slot.device,
                num_threads=slot.num_threads,
                environment=self._parts.environment,
                at=self._now(),
            )
        )
        self._running[key.token] = _Attempt(key=key)
        self._parts.executor.submit(self._parts.make_job(trial, key, slot), slot)

    # --- listening to attempts

    def take_message(self, message: Message) -> None:
        """Take in what an attempt said; a message of a settled attempt changes nothing."""
        attempt = self._running.get(message.key.token)
        if attempt is None or attempt.is_settled:
            return
        match message.body:
            case Started():
                pass
            case Progress() as body:
                self._tell(
                    ev.Progressed(
                        number=message.key.trial, epoch=body.epoch, fraction=body.fraction
                    )
                )
            case Report() as body:
                self._take_report(attempt, message, body.measurement)
            case CheckpointWritten() as body:
                self._emit(
                    ev.CheckpointPublished(
                        number=message.key.trial,
                        token=message.key.token,
                        kind=body.checkpoint_kind,
                        checkpoint=body.checkpoint,
                        at=self._now(),
                    )
                )
                self._parts.executor.answer(message, CONTINUE)
            case Finished() as body:
                self._take_outcome(attempt, body)
            case Failed() as body:
                self._end_trial(attempt, TrialState.FAIL, body.text, body.failure)

    def _take_report(self, attempt: _Attempt, message: Message, measurement: Measurement) -> None:
        fault = fault_of(measurement, self._objective.metric)
        if fault is not None:
            self._end_trial(attempt, TrialState.FAIL, *fault)
            self._parts.executor.kill(attempt.key)
            return
        trial = self._history[attempt.key.trial]
        is_repeated = measurement.epoch <= trial.num_epochs
        if is_repeated:
            self._check_repetition(trial, measurement)
        else:
            trial = replace(trial, measurements=(*trial.measurements, measurement))
        attempt.decision = self._decide(trial, measurement)
        if not is_repeated:
            self._emit(
                ev.Measured(
                    number=trial.number,
                    token=attempt.key.token,
                    measurement=measurement,
                    decision=attempt.decision,
                    at=self._now(),
                )
            )
        self._parts.executor.answer(message, attempt.decision)
        self._check_target(trial, measurement)

    def _check_repetition(self, trial: Trial, measurement: Measurement) -> None:
        """Hold an epoch trained again after a resume to what was recorded of it."""
        names = differing(trial.measurements[measurement.epoch - 1], measurement)
        if names:
            note = f"not deterministic: epoch {measurement.epoch} trained again gave other {names}"
            self._emit(ev.Noted(number=trial.number, note=note, at=self._now()))

    def _decide(self, trial: Trial, measurement: Measurement) -> Decision:
        is_last = measurement.epoch >= int(trial.plan.config["epochs"])
        if self._ending is not None and self._reached is None and not is_last:
            return Decision(action=Action.STOP, reason=self._ending.reason)
        if measurement.epoch < trial.num_epochs:
            return CONTINUE  # trained again after a resume, and judged when it was recorded
        return self._parts.pruner.judge(trial, self._history.trials, self._objective)

    def _check_target(self, trial: Trial, measurement: Measurement) -> None:
        """End the study once a trial reached the target; what runs then, runs to its end."""
        until = self._parts.sweep.budget.until
        value = measurement.metrics[self._objective.metric]
        if until is None or self._ending is not None or self._objective.is_better(until, value):
            return
        is_last = measurement.epoch >= int(trial.plan.config["epochs"])
        if self._objective.at is At.LAST and not is_last:
            return
        self._reached = trial.plan.config_id
        reason = f"{self._objective.metric} reached {value:.6g}"
        self._ending = _Ending(state=StudyState.FINISHED, reason=reason)

    def _take_outcome(self, attempt: _Attempt, body: Finished) -> None:
        digest = body.result.get("weights_sha256")
        self._note_findings(attempt, body)
        match body.result["kind"], attempt.decision.action:
            case "diverged", _:
                text = str(body.result["message"])
                self._end_trial(attempt, TrialState.FAIL, text, FailureKind.DIVERGED)
            case "finished", _:
                self._end_trial(attempt, TrialState.COMPLETE, "", digest=digest)
            case _, Action.PRUNE:
                self._end_trial(attempt, TrialState.PRUNED, attempt.decision.reason, digest=digest)
            case _:
                self._interrupt(attempt, attempt.decision.reason)

    def _note_findings(self, attempt: _Attempt, body: Finished) -> None:
        """Put on record what an ended training says of itself; one that goes on says it later."""
        goes_on = body.result["kind"] == "ended_by_decision"
        if goes_on and attempt.decision.action is not Action.PRUNE:
            return
        remarks = [*body.result.get("findings", ())]
        if body.result["kind"] == "finished" and body.result["message"]:
            remarks.append(str(body.result["message"]))  # such as that it ended early
        notes = [
            ev.Noted(number=attempt.key.trial, note=remark, at=self._now()) for remark in remarks
        ]
        if notes:
            self._emit(*notes)

    def take_end(self, ended: JobEnded) -> None:
        """Take in that a job's process is gone."""
        for key in ended.attempts:
            attempt = self._running.pop(key.token)
            if attempt.is_settled:
                continue
            if self._ending is not None and self._parts.interruption.count > 1:
                self._interrupt(attempt, "ended at once on a second interruption")
            else:
                text = f"its process {describe_exit(ended.exit_code)}"
                self._end_trial(attempt, TrialState.FAIL, text, FailureKind.CRASH)

    def _interrupt(self, attempt: _Attempt, reason: str) -> None:
        attempt.is_settled = True
        self._emit(
            ev.AttemptInterrupted(
                number=attempt.key.trial, token=attempt.key.token, reason=reason, at=self._now()
            )
        )

    def _end_trial(
        self,
        attempt: _Attempt,
        state: TrialState,
        reason: str,
        failure: FailureKind | None = None,
        digest: str | None = None,
    ) -> None:
        attempt.is_settled = True
        trial = self._history[attempt.key.trial]
        is_failed = state is TrialState.FAIL  # which has no value, whatever it measured before
        chosen = None if is_failed else self._objective.select(trial.measurements)
        self._emit(
            ev.TrialEnded(
                number=trial.number,
                token=attempt.key.token,
                state=state,
                reason=reason,
                failure=failure,
                value=chosen.metrics[self._objective.metric] if chosen else None,
                best_epoch=chosen.epoch if chosen else None,
                weights_sha256=digest,
                at=self._now(),
            ),
            # Time spent is kept with every trial, so that a killed run counts too.
            self._study_state(StudyState.RUNNING, "running"),
        )

    def _emit(self, *events: ev.StudyEvent) -> None:
        """Make events durable, then take them in and tell them on."""
        self._parts.ledger.apply(self._parts.uid, events)
        for event in events:
            self._history.apply(event)
        for event in events:
            self._tell(event)

    def _tell(self, event: ev.StudyEvent) -> None:
        for subscriber in self._parts.subscribers:
            subscriber(event)

    def _now(self) -> str:
        return self._parts.clock.now().isoformat()

    def _elapsed_s(self) -> float:
        return self._parts.clock.monotonic() - self._began_s
