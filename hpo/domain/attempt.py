"""One try at one trial, and the surroundings that explain a difference between two tries."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What an attempt ran under, apart from its configuration and seeds."""

    code_digest: str
    """Of the package sources, which are kept in the home under this name."""
    data_fingerprint: str
    """Of the decoded data set and its split."""
    git_revision: str | None
    """Of the working directory; None outside a repository."""
    git_is_dirty: bool
    versions: dict[str, str]
    """Python and the packages that decide numerics, by name."""
    machine: dict[str, str]
    """Processor model, cores, operating system, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at one trial, as the ledger knows it."""

    number: int
    """Counts from 1 within the trial."""
    token: str
    """Names this attempt alone; a message with another token is late."""
    device: str
    num_threads: int
    environment: Environment
    started_at: str
    """ISO 8601, UTC."""
    ended_at: str | None
    outcome: str | None
    """How it ended, for people; None while it runs."""
