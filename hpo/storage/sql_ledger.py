"""The ledger over SQLite or PostgreSQL: Optuna's own schema with our tables beside it."""

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import sqlalchemy as sa

from hpo.clock import Clock, SystemClock
from hpo.domain import event as ev
from hpo.domain.attempt import Attempt, Environment
from hpo.domain.study import StudyState
from hpo.domain.trial import CheckpointRef, Trial, TrialState
from hpo.errors import UsageError
from hpo.storage import hpo_schema, optuna_schema
from hpo.storage.database import open_engine, survives_drops, write_transaction
from hpo.storage.deletion import delete_study_rows
from hpo.storage.event_writer import EventWriter, applied_mark
from hpo.storage.ledger import NewStudy, Owner, StudyRow
from hpo.storage.study_lock import StudyLock, find_owner
from hpo.storage.trial_reader import read_trials
from hpo.storage.writer import Transaction, Writer

DURABLE_EVENTS = (
    ev.TrialsPlanned,
    ev.TrialEnded,
    ev.AttemptInterrupted,
    ev.StudyStateChanged,
)
"""Events that must survive a power cut; the others survive the death of any process."""


class SqlLedger:
    """Keeps the promises of `Ledger` in one SQL database."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        """Open the database at `url`, creating it when it is not there.

        Args:
            url: an SQLAlchemy URL; `sqlite:///runs/hpo.db` or `postgresql+psycopg://..`.
            clock: for waiting until a database that went away is back; the machine's without it.

        Raises:
            UsageError: it cannot be opened, or has another version.
        """
        self._engine = open_engine(url)
        self._clock = clock or SystemClock()
        self._writer = Writer(self._engine, self._clock)
        self._writer_facts: dict[str, tuple[int, dict[str, str], str]] = {}

    def close(self) -> None:
        """Close every connection."""
        self._writer.close()
        self._engine.dispose()

    def create_study(self, study: NewStudy) -> None:
        """Add a study without trials.

        Raises:
            UsageError: the name is taken.
        """
        try:
            self._insert_study(study)
        except sa.exc.IntegrityError as error:  # two processes, or a study that Optuna made
            if study.uid in {row.uid for row in self.studies()}:
                return  # committed by a try whose connection was lost before it was heard of
            raise UsageError(
                f"a study named {study.name} exists; write another study: name"
            ) from error

    @survives_drops
    def _insert_study(self, study: NewStudy) -> None:
        table = optuna_schema.studies
        with write_transaction(self._engine, is_durable=True) as connection:
            inserting = table.insert().values(study_name=study.name).returning(table.c.study_id)
            study_id = connection.execute(inserting).scalar_one()
            for index, direction in enumerate(study.directions):
                connection.execute(
                    optuna_schema.study_directions.insert().values(
                        study_id=study_id, objective=index, direction=direction.value.upper()
                    )
                )
            connection.execute(
                hpo_schema.studies.insert().values(
                    study_id=study_id,
                    uid=study.uid,
                    name=study.name,
                    document=study.document,
                    source=study.source,
                    distributions_json=json.dumps(dict(study.distributions)),
                    state=StudyState.STOPPED.value,
                    reason="not started",
                    created_at=study.created_at,
                    running_s=0.0,
                )
            )

    def apply(self, study_uid: str, events: Sequence[ev.StudyEvent]) -> int:
        """Write events of one study in one transaction; return how many were late.

        A connection that is lost on the way is made again, and what it may or may not have
        committed is written exactly once.
        """
        if not events:
            return 0
        is_durable = any(isinstance(event, DURABLE_EVENTS) for event in events)
        study_id, distributions, metric = self._facts(study_uid)
        mark = applied_mark(study_id) if self._writer.is_postgres else None
        num_late: list[int] = []  # as the latest try found it

        def work(transaction: Transaction) -> int:
            opening = [mark] if mark else []
            if transaction.is_again:
                if opening and transaction.run(opening)[0].count == 0:
                    return num_late[-1]  # that try was committed before its connection was lost
                opening = []
            writer = EventWriter(transaction, study_id, distributions, metric)
            num_late.append(writer.write(events, opening))
            return num_late[-1]

        return self._writer.transact(work, is_durable=is_durable)

    def _facts(self, uid: str) -> tuple[int, dict[str, str], str]:
        """Return what writing needs of a study and never changes: id, distributions, metric."""
        if uid not in self._writer_facts:
            table = hpo_schema.studies
            with self._engine.begin() as connection:
                row = connection.execute(
                    sa.select(
                        table.c.study_id, table.c.distributions_json, table.c.document
                    ).where(table.c.uid == uid)
                ).one()
            objective = json.loads(row.document)["objective"]
            self._writer_facts[uid] = (
                row.study_id,
                json.loads(row.distributions_json),
                objective["metric"],
            )
        return self._writer_facts[uid]

    @survives_drops
    def studies(self) -> tuple[StudyRow, ...]:
        """Return every study, the oldest first."""
        table, trials = hpo_schema.studies, optuna_schema.trials
        with self._engine.begin() as connection:
            rows = connection.execute(sa.select(table).order_by(table.c.study_id)).all()
            counts: dict[int, dict[TrialState, int]] = defaultdict(dict)
            query = sa.select(trials.c.study_id, trials.c.state, sa.func.count()).group_by(
                trials.c.study_id, trials.c.state
            )
            for study_id, state, count in connection.execute(query):
                counts[study_id][TrialState(state)] = count
        return tuple(
            StudyRow(
                uid=row.uid,
                name=row.name,
                document=row.document,
                source=row.source,
                state=StudyState(row.state),
                reason=row.reason,
                created_at=row.created_at,
                ended_at=row.ended_at,
                running_s=row.running_s,
                is_stop_requested=row.stop_requested_at is not None,
                counts=counts[row.study_id],
            )
            for row in rows
        )

    @survives_drops
    def trials(self, study_uid: str) -> tuple[Trial, ...]:
        """Return every trial of a study by number."""
        with self._engine.begin() as connection:
            return read_trials(connection, self._study_id(connection, study_uid))

    @survives_drops
    def checkpoint(self, study_uid: str, number: int, kind: str) -> CheckpointRef | None:
        """Return a trial's newest checkpoint of a kind: `last`, `best`, or `@7` of epoch 7."""
        table, trials = hpo_schema.checkpoints, hpo_schema.trials
        with self._engine.begin() as connection:
            row = connection.execute(
                sa.select(table)
                .join(trials, trials.c.trial_id == table.c.trial_id)
                .where(
                    trials.c.study_id == self._study_id(connection, study_uid),
                    trials.c.number == number,
                    table.c.kind == kind,
                )
            ).one_or_none()
        if row is None:
            return None
        return CheckpointRef(
            uri=row.uri, sha256=row.sha256, epoch=row.epoch, num_bytes=row.num_bytes
        )

    @survives_drops
    def attempts(self, study_uid: str, number: int) -> tuple[Attempt, ...]:
        """Return every attempt at a trial, in order."""
        table, trials, environments = (
            hpo_schema.attempts,
            hpo_schema.trials,
            hpo_schema.environments,
        )
        with self._engine.begin() as connection:
            rows = connection.execute(
                sa.select(table, environments.c.document)
                .join(trials, trials.c.trial_id == table.c.trial_id)
                .join(environments, environments.c.environment_id == table.c.environment_id)
                .where(
                    trials.c.study_id == self._study_id(connection, study_uid),
                    trials.c.number == number,
                )
                .order_by(table.c.attempt)
            ).all()
        return tuple(
            Attempt(
                number=row.attempt,
                token=row.token,
                device=row.device,
                num_threads=row.num_threads,
                environment=Environment(**json.loads(row.document)),
                started_at=row.started_at,
                ended_at=row.ended_at,
                outcome=row.outcome,
            )
            for row in rows
        )

    @survives_drops
    def notes(self, study_uid: str) -> Mapping[int, tuple[str, ...]]:
        """Return the remarks on each trial that has any, by trial number."""
        table, trials = hpo_schema.notes, hpo_schema.trials
        found: dict[int, tuple[str, ...]] = {}
        with self._engine.begin() as connection:
            query = (
                sa.select(trials.c.number, table.c.note)
                .join(trials, trials.c.trial_id == table.c.trial_id)
                .where(trials.c.study_id == self._study_id(connection, study_uid))
                .order_by(table.c.note_id)
            )
            for number, note in connection.execute(query):
                found[number] = (*found.get(number, ()), note)
        return found

    @survives_drops
    def extend_study(
        self, study_uid: str, document: str, source: str, distributions: Mapping[str, str]
    ) -> None:
        """Replace a study's sweep by a compatible, larger one."""
        self._update_study(
            study_uid,
            document=document,
            source=source,
            distributions_json=json.dumps(dict(distributions)),
        )
        self._writer_facts.pop(study_uid, None)

    @survives_drops
    def request_stop(self, study_uid: str, at: str | None) -> None:
        """Ask the study's owner to stop after the running epochs; None takes it back."""
        self._update_study(study_uid, stop_requested_at=at)

    @survives_drops
    def is_stop_requested(self, study_uid: str) -> bool:
        """Tell whether a stop was asked for."""
        table = hpo_schema.studies
        query = sa.select(table.c.stop_requested_at).where(table.c.uid == study_uid)
        with self._engine.begin() as connection:
            return connection.execute(query).scalar() is not None

    @survives_drops
    def test_result(self, study_uid: str, config_id: str) -> str | None:
        """Return the stored test-split result of a configuration as JSON, or None."""
        table = hpo_schema.test_results
        with self._engine.begin() as connection:
            document: str | None = connection.execute(
                sa.select(table.c.document).where(
                    table.c.study_id == self._study_id(connection, study_uid),
                    table.c.config_id == config_id,
                )
            ).scalar()
        return document

    def store_test_result(self, study_uid: str, config_id: str, document: str, at: str) -> None:
        """Store a configuration's test-split result, in place of an earlier one."""
        table = hpo_schema.test_results
        with write_transaction(self._engine, is_durable=True) as connection:
            study_id = self._study_id(connection, study_uid)
            connection.execute(
                table.delete().where(table.c.study_id == study_id, table.c.config_id == config_id)
            )
            connection.execute(
                table.insert().values(
                    study_id=study_id,
                    config_id=config_id,
                    document=document,
                    at=at,
                )
            )

    def delete_study(self, study_uid: str) -> None:
        """Remove a study and everything of it from the database."""
        with write_transaction(self._engine, is_durable=True) as connection:
            delete_study_rows(connection, self._study_id(connection, study_uid))
        self._writer_facts.pop(study_uid, None)

    def _update_study(self, study_uid: str, **values: object) -> None:
        table = hpo_schema.studies
        with write_transaction(self._engine, is_durable=True) as connection:
            connection.execute(table.update().where(table.c.uid == study_uid).values(**values))

    def _study_id(self, connection: sa.Connection, uid: str) -> int:
        table = hpo_schema.studies
        study_id: int = connection.execute(
            sa.select(table.c.study_id).where(table.c.uid == uid)
        ).scalar_one()
        return study_id

    # --- ownership

    @contextlib.contextmanager
    def own(self, study: str, owner: Owner) -> Iterator[None]:
        """Be the only one that conducts a study, for as long as the context lasts.

        The lock is PostgreSQL's own, held by the connection that writes, so that it is gone as
        soon as nothing can be written any more. A SQLite file is guarded by its machine's file
        lock instead; see `hpo.study.ownership`.

        Raises:
            OwnedError: another living process, on whatever machine, conducts it.
        """
        if not self._writer.is_postgres:
            yield
            return
        lock = StudyLock(self._writer, self._clock, study, owner)
        lock.take()
        try:
            yield
        finally:
            lock.release()

    @survives_drops
    def owner_of(self, study: str) -> Owner | None:
        """Return who conducts a study now over PostgreSQL, or None."""
        if not self._writer.is_postgres:
            return None
        with self._engine.begin() as connection:
            return find_owner(connection, study)
