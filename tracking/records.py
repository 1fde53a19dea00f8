"""What is told about runs: frozen, JSON-able, and harmless to tell twice.

Every record carries its own time, so that a record delivered a week late says when it happened,
and a `key` made from its content alone, so that the same fact written again is the same record.
Records say nothing about where they go: that is the `Destination`'s matter.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

ParamValue: TypeAlias = str | int | float | bool | None
"""What a run's parameter may be; shown as text by every tracking server."""

RunStatus: TypeAlias = Literal["FINISHED", "FAILED", "KILLED"]
"""How a run ended."""

FORMAT_VERSION = 1
"""Of the JSON form. A reader refuses a later one."""

_RUN_KEY = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where records go."""

    uri: str
    """Of the tracking server or store, such as `http://127.0.0.1:5000` or `sqlite:///mlflow.db`.

    A relative SQLite path counts from the folder of the outbox, never from the current one, so
    that this folder can be moved.
    """
    experiment: str
    """Its name there; created when it does not exist."""

    def __post_init__(self) -> None:
        if urlsplit(self.uri).password is not None:
            raise ValueError(
                "the tracking URI holds a password, which would be kept in files; set "
                "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (or PGPASSWORD) instead"
            )

    def absolute_uri(self, folder: Path) -> str:
        """Return the URI with a relative SQLite path taken from `folder`."""
        scheme, separator, path = self.uri.partition(":///")
        if not (separator and scheme.startswith("sqlite") and path):
            return self.uri
        return f"{scheme}:///{folder.absolute() / path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentDescribed:
    """What an experiment is about."""

    tags: Mapping[str, str]
    """Set on the experiment; others stay."""
    note: str | None
    """Markdown shown above the runs; None leaves what is there."""
    at_ms: int
    """Milliseconds since 1970 in UTC, as in all records."""

    @property
    def key(self) -> str:
        """Names this record within its destination."""
        return f"experiment/{self.at_ms}/{_digest([dict(self.tags), self.note])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run exists from now on, and is running."""

    run_key: str
    """Unique in the world and never reused, such as `<study uid>/7`; groups by its first part."""
    name: str
    """Shown to people."""
    parent_key: str | None
    """The run that this one is nested under; None at the top level."""
    tags: Mapping[str, str]
    params: Mapping[str, ParamValue]
    at_ms: int
    """The run's start."""

    def __post_init__(self) -> None:
        _check_run_key(self.run_key)
        if self.parent_key is not None:
            _check_run_key(self.parent_key)

    @property
    def key(self) -> str:
        """Names this record within its destination: a run starts once."""
        return f"{self.run_key}#started"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReopened:
    """An ended run goes on, for instance after an interruption."""

    run_key: str
    at_ms: int

    def __post_init__(self) -> None:
        _check_run_key(self.run_key)

    @property
    def key(self) -> str:
        """Names this record within its destination."""
        return f"{self.run_key}#reopened/{self.at_ms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsLogged:
    """Metric values at one step.

    The first record of the same names at the same step counts: a step measured again, as after a
    resume, must not show twice in a curve.
    """

    run_key: str
    values: Mapping[str, float]
    """By metric name. Finite: a store may keep NaN as 0 and infinity as 1.8e308."""
    step: int
    """From 0."""
    at_ms: int

    def __post_init__(self) -> None:
        _check_run_key(self.run_key)
        for name, value in self.values.items():
            if not math.isfinite(value):
                raise ValueError(
                    f"metric {name} of run {self.run_key} at step {self.step} is {value}; "
                    "log finite values only, and say that a run diverged with a tag"
                )

    @property
    def key(self) -> str:
        """Names this record within its destination: the step and the metric names, no values."""
        return f"{self.run_key}#metrics/{self.step}/{_digest(sorted(self.values))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagsSet:
    """Tags of a run have these values now; a later record wins."""

    run_key: str
    tags: Mapping[str, str]
    at_ms: int

    def __post_init__(self) -> None:
        _check_run_key(self.run_key)

    @property
    def key(self) -> str:
        """Names this record within its destination."""
        return f"{self.run_key}#tags/{self.at_ms}/{_digest(dict(self.tags))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamsLogged:
    """Parameters of a run, which never change once logged."""

    run_key: str
    params: Mapping[str, ParamValue]
    at_ms: int

    def __post_init__(self) -> None:
        _check_run_key(self.run_key)

    @property
    def key(self) -> str:
        """Names this record within its destination."""
        return f"{self.run_key}#params/{_digest(dict(self.params))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetLogged:
    """Data that a run read."""

    run_key: str
    name: str
    digest: str
    """Of its content; at most 36 characters, so cut a sha256."""
    source: str
    """Where it came from: a path, a URL or a name that its loader understands."""
    context: str
    """What for, such as `training` or `validation`."""
    at_ms: int

    def __post_init__(self) -> None:
        _check_run_key(self.run_key)
        if not 1 <= len(self.digest) <= 36:
            raise ValueError(
                f"the digest of data set {self.name} has {len(self.digest)} characters; "
                "give 1 to 36, such as the first 32 of a sha256"
            )

    @property
    def key(self) -> str:
        """Names this record within its destination."""
        return f"{self.run_key}#dataset/{_digest([self.name, self.digest, self.context])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLogged:
    """A file, or a folder with all it holds, belongs to a run. Read when it is delivered."""

    run_key: str
    path: str
    """Absolute, or relative to the folder that holds the outbox."""
    artifact_path: str | None
    """The folder among the run's artifacts to put it in; None is their root."""
    at_ms: int

    def __post_init__(self) -> None:
        _check_run_key(self.run_key)

    @property
    def key(self) -> str:
        """Names this record within its destination; one path logged later again counts again."""
        return f"{self.run_key}#artifact/{self.at_ms}/{_digest([self.path, self.artifact_path])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLogged:
    """A small text file among a run's artifacts."""

    run_key: str
    text: str
    artifact_file: str
    """Its name among the artifacts, such as `config/full.json`; an older one is replaced."""
    at_ms: int

    def __post_init__(self) -> None:
        _check_run_key(self.run_key)

    @property
    def key(self) -> str:
        """Names this record within its destination."""
        return f"{self.run_key}#text/{self.at_ms}/{_digest([self.artifact_file, self.text])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """A run is over."""

    run_key: str
    status: RunStatus
    at_ms: int
    """The run's end."""

    def __post_init__(self) -> None:
        _check_run_key(self.run_key)
        if self.status not in ("FINISHED", "FAILED", "KILLED"):
            raise ValueError(
                f"run {self.run_key} cannot end as {self.status}; write FINISHED, FAILED or KILLED"
            )

    @property
    def key(self) -> str:
        """Names this record within its destination."""
        return f"{self.run_key}#ended/{self.at_ms}/{self.status}"


RunRecord: TypeAlias = (
    RunStarted
    | RunReopened
    | MetricsLogged
    | TagsSet
    | ParamsLogged
    | DatasetLogged
    | ArtifactLogged
    | TextLogged
    | RunEnded
)
"""A record about one run."""

Record: TypeAlias = ExperimentDescribed | RunRecord
"""A record about an experiment or one of its runs."""

_KINDS: dict[str, type[Record]] = {
    kind.__name__: kind
    for kind in (
        ExperimentDescribed,
        RunStarted,
        RunReopened,
        MetricsLogged,
        TagsSet,
        ParamsLogged,
        DatasetLogged,
        ArtifactLogged,
        TextLogged,
        RunEnded,
    )
}


def to_json(record: Record) -> str:
    """Return the record as one line of JSON; floats keep every bit."""
    form = {"v": FORMAT_VERSION, "kind": type(record).__name__, **asdict(record)}
    return json.dumps(form, separators=(",", ":"), allow_nan=False)


def from_json(text: str) -> Record:
    """Read what `to_json` wrote.

    Raises:
        ValueError: `text` is no record, or one of a later version.
    """
    form = json.loads(text)
    version = form.pop("v", None)
    kind = _KINDS.get(form.pop("kind", ""))
    if version != FORMAT_VERSION or kind is None:
        raise ValueError(
            f"a record of version {version} cannot be read by version {FORMAT_VERSION}; "
            "use the release that wrote it, or a later one"
        )
    try:
        return kind(**form)
    except TypeError as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from error


def _check_run_key(run_key: str) -> None:
    if not _RUN_KEY.fullmatch(run_key):
        raise ValueError(
            f"'{run_key}' is not a run key; write parts of letters, digits, '.', '_' and '-' "
            "joined by '/', such as 1f0c9a/7"
        )


def _digest(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
