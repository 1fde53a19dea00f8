"""Where a home keeps things. Every path that a study writes is a property or method here."""

import os
from pathlib import Path

from hpo.errors import UsageError

DEFAULT_HOME = Path("runs")


class Home:
    """A folder with everything of its studies; it can be moved, since paths in it are relative."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    @classmethod
    def open(cls, root: Path | None = None) -> "Home":
        """Return the home to use: the one given, else `HPO_HOME`, else `./runs`."""
        named = os.environ.get("HPO_HOME")
        return cls(root or (Path(named) if named else DEFAULT_HOME))

    def create(self) -> "Home":
        """Make the folder and check that it can be written.

        Raises:
            UsageError: it cannot.
        """
        if any(letter in str(self.root) for letter in "?%#"):
            raise UsageError(
                f"the home {self.root} has ?, % or # in its path, which a database URL cannot"
                " carry; name another folder with --home DIR or HPO_HOME"
            )
        probe = self.root / ".writable"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise UsageError(
                f"the home {self.root} cannot be written: {error.strerror}; name another folder"
                " with --home DIR or HPO_HOME"
            ) from error
        return self

    @property
    def exists(self) -> bool:
        """Whether any study was ever kept here."""
        return "HPO_LEDGER" in os.environ or (self.root / "hpo.db").exists()

    @property
    def ledger_url(self) -> str:
        """The ledger's database: `HPO_LEDGER`, such as a team's PostgreSQL, or a file here."""
        return os.environ.get("HPO_LEDGER") or f"sqlite:///{self.root / 'hpo.db'}"

    @property
    def mlflow_uri(self) -> str:
        """The MLflow store of this home."""
        return f"sqlite:///{self.root / 'mlflow.db'}"

    @property
    def default_tracking_uri(self) -> str:
        """Where a sweep without `tracking.uri` sends its records, seen from the outbox.

        `MLFLOW_TRACKING_URI` as for MLflow itself, else the store of this home by a relative path,
        so that the home can be moved.
        """
        return os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"

    @property
    def artifacts(self) -> Path:
        """MLflow's artifacts."""
        return self.root / "mlartifacts"

    @property
    def outbox(self) -> Path:
        """Records on their way to MLflow."""
        return self.root / "outbox.db"

    @property
    def cache(self) -> Path:
        """Decoded data sets; can be deleted at any time."""
        return self.root / "cache"

    @property
    def code(self) -> Path:
        """Package sources, one folder for each digest."""
        return self.root / "code"

    @property
    def log(self) -> Path:
        """Output of everything that is not a trial."""
        return self.root / "hpo.log"

    def owner_lock(self, study: str) -> Path:
        """The file whose lock the conductor of a study holds, beside the ledger that it guards."""
        _, is_sqlite, path = self.ledger_url.partition("sqlite:///")
        folder = Path(path).absolute().parent if is_sqlite and path else self.root
        return folder / "locks" / f"{study}.lock"

    def study(self, study: str) -> Path:
        """A study's folder."""
        return self.root / "trials" / study

    def trial(self, study: str, number: int) -> Path:
        """A trial's folder: checkpoints, logs, lineage."""
        return self.study(study) / str(number)

    def attempt_log(self, study: str, number: int, attempt: int) -> Path:
        """What one attempt printed."""
        return self.trial(study, number) / f"attempt-{attempt}.log"

    def lineage(self, study: str, number: int) -> Path:
        """What explains and reproduces a trial."""
        return self.trial(study, number) / "lineage.json"
