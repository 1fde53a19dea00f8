"""Showing a study in MLflow: events become records, which another process delivers.

The mirror is a function of the ledger: at the start of every run the records of all trials are
told again, and those told before are left as they are. So a conductor that was killed between
writing the ledger and telling the outbox leaves no gap.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime

from hpo.domain import event as ev
from hpo.domain.attempt import Attempt, Environment
from hpo.domain.study import Study, StudyState
from hpo.domain.sweep import Sweep
from hpo.domain.trial import Measurement, PlannedTrial, Trial, TrialState
from hpo.statistics.summary import median_replicate
from hpo.storage.ledger import Ledger
from hpo.study.conclusion import Conclusion, as_markdown
from hpo.study.home import Home
from hpo.study.lineage import lineage_of
from hpo.study.naming import run_name
from hpo.sweepfile.sweep import dump_sweep
from hpo.training.finding import Finding
from tracking import records as rec
from tracking.lineage import Lineage
from tracking.outbox import Outbox
from tracking.sender_process import SenderProcess

DRAIN_S = 120.0
"""How long the end of a run waits for MLflow to take the last records."""

FAILING_DRAIN_S = 3.0
"""The same, when MLflow did not take the records before."""

RUN_STATUS: Mapping[TrialState, rec.RunStatus] = {
    TrialState.COMPLETE: "FINISHED",
    TrialState.PRUNED: "KILLED",
    TrialState.FAIL: "FAILED",
}
"""MLflow has no word for pruned; KILLED says that it did not run to its end."""


class Mirror:
    """Turns what happens in one study into records for MLflow."""

    def __init__(self, home: Home, uid: str, sweep: Sweep) -> None:
        self._home = home
        self._uid = uid
        self._sweep = sweep
        self._plans: dict[int, PlannedTrial] = {}
        self._outbox = Outbox(home.outbox)
        self._destination = rec.Destination(
            uri=sweep.tracking.uri or home.default_tracking_uri,
            experiment=sweep.tracking.experiment or sweep.study,
        )
        self._sender = SenderProcess(home.outbox, home.artifacts, home.log, self._destination.uri)

    @classmethod
    @contextmanager
    def open(cls, home: Home, uid: str, sweep: Sweep) -> "Iterator[Mirror]":
        """Start the delivering process and keep it for as long as the context lasts."""
        mirror = cls(home, uid, sweep)
        mirror._sender.start()
        try:
            yield mirror
        finally:
            mirror._sender.stop()
            mirror._outbox.close()

    def begin(self, study: Study, environment: Environment, ledger: Ledger) -> None:
        """Tell the study and everything that happened in it so far."""
        self._append(self._study_records(environment, study.created_at))
        notes = ledger.notes(study.uid)
        for trial in study.trials:
            self._plans[trial.number] = trial.plan
            self._append(self._past(trial, ledger.attempts(study.uid, trial.number)))
            at = trial.ended_at or study.created_at
            self._append(self._noted(trial.number, notes.get(trial.number, ()), at))

    def take(self, event: ev.StudyEvent) -> None:
        """Tell one event."""
        match event:
            case ev.TrialsPlanned():
                self._plans |= {plan.number: plan for plan in event.trials}
            case ev.AttemptStarted():
                self._append(self._started(event))
            case ev.Measured():
                self._append([self._metrics(event.number, event.measurement, event.at)])
            case ev.AttemptInterrupted():
                self._append(self._ended_as(event.number, "KILLED", event.at))
            case ev.TrialEnded():
                self._append(self._ended(event))
            case ev.Noted():
                self._append(self._noted(event.number, [event.note], event.at))
            case ev.CheckpointPublished() | ev.Progressed() | ev.StudyStateChanged():
                pass

    def end(self, study: Study, conclusion: Conclusion) -> str:
        """Tell how the study stands, wait for delivery, and return a remark when it lags."""
        at_ms = _ms(study.ended_at or study.created_at)
        records: list[rec.Record] = [
            rec.TagsSet(
                run_key=self._uid,
                tags={
                    "hpo.state": study.state.value,
                    "mlflow.note.content": as_markdown(conclusion),
                },
                at_ms=at_ms,
            )
        ]
        best = median_replicate(conclusion.winner) if conclusion.winner else None
        if best is not None and best.best is not None:
            records += self._best_records(best, best.best.uri, at_ms)
        ended: rec.RunStatus = "FINISHED" if study.state is StudyState.FINISHED else "KILLED"
        records.append(rec.RunEnded(run_key=self._uid, status=ended, at_ms=at_ms))
        self._append(records)
        status = self._sender.status()
        is_failing = status is not None and status.error is not None
        drained = self._sender.drain(FAILING_DRAIN_S if is_failing else DRAIN_S)
        if not drained.pending:
            return ""
        return (
            f"{drained.pending} records wait for MLflow at {self._destination.uri}"
            f" ({drained.error or 'it is slow'}); they are kept and sent by the next run"
        )

    # --- records

    def _key(self, number: int) -> str:
        return f"{self._uid}/{number}"

    def _append(self, records: Iterable[rec.Record]) -> None:
        self._outbox.append(self._destination, records)

    def _study_records(self, environment: Environment, created_at: str) -> list[rec.Record]:
        sweep, at_ms = self._sweep, _ms(created_at)
        objective = sweep.objective
        varied = ", ".join(sweep.space.names)
        return [
            rec.ExperimentDescribed(
                tags={
                    "mlflow.experiment.primaryMetric.name": f"best_{objective.metric}",
                    "mlflow.experiment.primaryMetric.greaterIsBetter": str(
                        objective.direction == "maximize"
                    ),
                },
                note=sweep.description or None,
                at_ms=at_ms,
            ),
            rec.RunStarted(
                run_key=self._uid,
                name=sweep.study,
                parent_key=None,
                tags={
                    "hpo.study": sweep.study,
                    "hpo.study_uid": self._uid,
                    "hpo.strategy": sweep.strategy.name,
                    "hpo.varied": varied,
                    "hpo.code_revision": environment.git_revision or "none",
                },
                params={},
                at_ms=at_ms,
            ),
            rec.TextLogged(
                run_key=self._uid,
                text=json.dumps(dump_sweep(sweep), indent=2),
                artifact_file="sweep.json",
                at_ms=at_ms,
            ),
        ]

    def _started(self, event: ev.AttemptStarted) -> list[rec.Record]:
        if event.attempt > 1:
            return [rec.RunReopened(run_key=self._key(event.number), at_ms=_ms(event.at))]
        lineage = lineage_of(
            self._sweep,
            self._plans[event.number],
            event.environment,
            event.device,
            event.num_threads,
        )
        return self._opening(self._plans[event.number], lineage, event.at)

    def _opening(self, plan: PlannedTrial, lineage: Lineage, at: str) -> list[rec.Record]:
        key, at_ms = self._key(plan.number), _ms(at)
        tags = {
            "hpo.trial": lineage.run_key,
            "hpo.study": self._sweep.study,
            "hpo.study_uid": self._uid,
            "hpo.config_id": plan.config_id,
            "hpo.replicate": str(plan.replicate),
            "hpo.role": plan.role.value,
            "hpo.varied": plan.axis or ", ".join(self._sweep.space.names),
            "hpo.code_digest": lineage.source_digest,
            "hpo.code_revision": lineage.git_revision or "none",
            "hpo.code_is_dirty": str(lineage.is_git_dirty).lower(),
            "hpo.data_fingerprint": lineage.data_digest or "none",
            **{f"hpo.seed.{stream}": str(seed) for stream, seed in lineage.seeds.items()},
        }
        data = str(plan.config.get("data", "data"))
        return [
            rec.RunStarted(
                run_key=key,
                name=run_name(self._sweep, plan),
                parent_key=self._uid,
                tags=tags,
                params=dict(plan.config),
                at_ms=at_ms,
            ),
            rec.DatasetLogged(
                run_key=key,
                name=data,
                digest=(lineage.data_digest or "none")[:32],
                source=data,
                context="training",
                at_ms=at_ms,
            ),
            rec.TextLogged(
                run_key=key,
                text=json.dumps(asdict(lineage), indent=2),
                artifact_file="lineage.json",
                at_ms=at_ms,
            ),
        ]

    def _metrics(self, number: int, measurement: Measurement, at: str) -> rec.MetricsLogged:
        return rec.MetricsLogged(
            run_key=self._key(number),
            values=dict(measurement.metrics),
            step=measurement.epoch,
            at_ms=_ms(at),
        )

    def _noted(self, number: int, notes: Iterable[str], at: str) -> list[rec.Record]:
        """Return a tag for each finding of a diagnosis; other remarks stay in the ledger."""
        findings = filter(None, map(Finding.parse, notes))
        tags = {finding.kind.tag: finding.text for finding in findings}
        if not tags:
            return []
        return [rec.TagsSet(run_key=self._key(number), tags=tags, at_ms=_ms(at))]

    def _ended_as(self, number: int, status: rec.RunStatus, at: str) -> list[rec.Record]:
        return [rec.RunEnded(run_key=self._key(number), status=status, at_ms=_ms(at))]

    def _ended(self, event: ev.TrialEnded) -> list[rec.Record]:
        key, at_ms = self._key(event.number), _ms(event.at)
        tags = {"hpo.state": event.state.value, "hpo.reason": event.reason}
        if event.failure is not None:
            tags["hpo.failure"] = event.failure.value
        records: list[rec.Record] = [rec.TagsSet(run_key=key, tags=tags, at_ms=at_ms)]
        if event.value is not None and event.best_epoch is not None:
            values = {
                f"best_{self._sweep.objective.metric}": event.value,
                "best_epoch": float(event.best_epoch),
            }
            step = event.best_epoch
            records.append(rec.MetricsLogged(run_key=key, values=values, step=step, at_ms=at_ms))
        return [*records, *self._ended_as(event.number, RUN_STATUS[event.state], event.at)]

    def _best_records(self, best: Trial, uri: str, at_ms: int) -> list[rec.Record]:
        return [
            rec.ArtifactLogged(
                run_key=self._key(best.number),
                path=uri,
                artifact_path="checkpoints",
                at_ms=_ms(best.ended_at or ""),
            ),
            rec.TagsSet(
                run_key=self._uid,
                tags={"hpo.best_trial": f"{self._sweep.study}/{best.number}"},
                at_ms=at_ms,
            ),
        ]

    def _past(self, trial: Trial, attempts: Sequence[Attempt]) -> list[rec.Record]:
        """Return the records of what happened to a trial before this run."""
        if not attempts:
            return []
        first = attempts[0]
        lineage = lineage_of(
            self._sweep, trial.plan, first.environment, first.device, first.num_threads
        )
        records = self._opening(trial.plan, lineage, first.started_at)
        # The time of an epoch is not kept; the sum of the epochs before it is near enough.
        at_s = datetime.fromisoformat(first.started_at).timestamp()
        for measurement in trial.measurements:
            at_s += measurement.metrics.get("epoch_s", 0.0)
            at = datetime.fromtimestamp(at_s, tz=UTC).isoformat()
            records.append(self._metrics(trial.number, measurement, at))
        if trial.state.is_finished and trial.ended_at is not None:
            ended = ev.TrialEnded(
                number=trial.number,
                token="",
                state=trial.state,
                reason=trial.reason,
                failure=trial.failure,
                value=trial.value,
                best_epoch=trial.best_epoch,
                weights_sha256=trial.weights_sha256,
                at=trial.ended_at,
            )
            records += self._ended(ended)
        return records


def _ms(at: str) -> int:
    """Return an ISO 8601 time as milliseconds since 1970."""
    return int(datetime.fromisoformat(at).timestamp() * 1000)
