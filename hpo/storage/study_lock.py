"""One owner of a study among all hosts that share a PostgreSQL ledger.

The lock is an advisory one of the session that writes: whoever can still write holds it, and it
ends with the connection, so a dead owner blocks nobody. It is keyed by the study's name rather
than its uid, because it must also keep two hosts from creating the same study.
"""

import hashlib
import secrets

import sqlalchemy as sa

from hpo.clock import Clock
from hpo.errors import OwnedError
from hpo.storage import hpo_schema
from hpo.storage.ledger import Owner
from hpo.storage.writer import Session, Writer

TAKE_BACK_S = 10.0
"""How long the lock of our own lost connection is waited for; the server is told to end it."""

TRY_EVERY_S = 0.05


def lock_key(study: str) -> int:
    """Return the number of a study's advisory lock: 64 bits of a hash, signed."""
    digest = hashlib.sha256(f"hpo study {study}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


class StudyLock:
    """Keeps a study for this process, also over a connection that is lost and made again."""

    def __init__(self, writer: Writer, clock: Clock, study: str, owner: Owner) -> None:
        self._writer = writer
        self._clock = clock
        self._study = study
        self._owner = owner
        self._token = secrets.token_hex(16)

    def take(self) -> None:
        """Take the lock and say whose it is.

        Raises:
            OwnedError: another living process has it; the text names that process.
        """
        self._writer.use(self._take)
        self._writer.on_reconnect.append(self._take_back)

    def release(self) -> None:
        """Give the lock back, unless it went with its connection."""
        self._writer.on_reconnect.remove(self._take_back)
        self._writer.use_last(self._release)

    def _try(self, session: Session) -> bool:
        [(is_taken,)] = session.execute(
            "SELECT pg_try_advisory_lock(%(key)s)", {"key": lock_key(self._study)}
        ).rows
        return bool(is_taken)

    def _take(self, session: Session) -> None:
        if not self._try(session):
            raise OwnedError(
                f"{self._study} is being run by process {self._named(session)}; wait for it, or"
                f" end it with `hpo stop {self._study}`"
            )
        session.execute(
            "INSERT INTO hpo_owners (study_name, host, pid, backend_pid, token)"
            " VALUES (%(study)s, %(host)s, %(pid)s, pg_backend_pid(), %(token)s)"
            " ON CONFLICT (study_name) DO UPDATE SET host = excluded.host, pid = excluded.pid,"
            " backend_pid = excluded.backend_pid, token = excluded.token",
            {
                "study": self._study,
                "host": self._owner.host,
                "pid": self._owner.pid,
                "token": self._token,
            },
        )

    def _take_back(self, session: Session) -> None:
        """Take the lock again after the connection that held it was lost.

        Raises:
            OwnedError: another process had it in between, so what this one knows of the study may
                be wrong.
        """
        deadline_s = self._clock.monotonic() + TAKE_BACK_S
        while not self._try(session):
            if self._clock.monotonic() > deadline_s:
                raise self._taken_over(session)
            self._clock.sleep(TRY_EVERY_S)
        kept = session.execute(
            "UPDATE hpo_owners SET backend_pid = pg_backend_pid()"
            " WHERE study_name = %(study)s AND token = %(token)s",
            {"study": self._study, "token": self._token},
        )
        if kept.count == 0:
            raise self._taken_over(session)

    def _taken_over(self, session: Session) -> OwnedError:
        return OwnedError(
            f"while the connection to the ledger was lost, {self._study} was taken over by process"
            f" {self._named(session)}; this one ends"
        )

    def _named(self, session: Session) -> str:
        rows = session.execute(
            "SELECT pid, host FROM hpo_owners WHERE study_name = %(study)s", {"study": self._study}
        ).rows
        return str(Owner(pid=rows[0][0], host=rows[0][1])) if rows else "unknown"

    def _release(self, session: Session) -> None:
        session.execute(
            "DELETE FROM hpo_owners WHERE study_name = %(study)s AND token = %(token)s",
            {"study": self._study, "token": self._token},
        )
        session.execute("SELECT pg_advisory_unlock(%(key)s)", {"key": lock_key(self._study)})


def find_owner(connection: sa.Connection, study: str) -> Owner | None:
    """Return who holds a study's lock; the row is believed only of the session that holds it."""
    key = lock_key(study) & (2**64 - 1)
    table = hpo_schema.owners
    row = connection.execute(
        sa.text(
            "SELECT o.host, o.pid FROM pg_locks l LEFT JOIN hpo_owners o"
            " ON o.backend_pid = l.pid AND o.study_name = :study"
            " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
            " AND l.classid::bigint = :high AND l.objid::bigint = :low AND l.database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).columns(table.c.host, table.c.pid),
        {"study": study, "high": key >> 32, "low": key & 0xFFFFFFFF},
    ).one_or_none()
    if row is None:
        return None
    return Owner(host=row.host or "an unknown host", pid=row.pid or 0)
