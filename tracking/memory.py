"""A tracker in memory, for tests and for looking at what would be tracked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracking.records import (
    ArtifactLogged,
    DatasetLogged,
    ExperimentDescribed,
    MetricsLogged,
    ParamsLogged,
    ParamValue,
    Record,
    RunEnded,
    RunRecord,
    RunReopened,
    RunStarted,
    TagsSet,
    TextLogged,
)
from tracking.tracker import Delivery


@dataclass(slots=True, kw_only=True)
class MemoryRun:
    """A run as delivered so far."""

    name: str
    parent_key: str | None
    started_at_ms: int
    status: str = "RUNNING"
    ended_at_ms: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    points: set[tuple[str, int, int, float]] = field(default_factory=set)
    """Name, step, time in ms and value of every metric."""
    datasets: set[tuple[str, str]] = field(default_factory=set)
    """Name and digest."""
    artifacts: dict[str, bytes] = field(default_factory=dict)
    """Contents by path."""


@dataclass(slots=True, kw_only=True)
class MemoryExperiment:
    """An experiment as delivered so far."""

    tags: dict[str, str] = field(default_factory=dict)
    note: str | None = None
    runs: dict[str, MemoryRun] = field(default_factory=dict)
    """By run key."""


class MemoryTracker:
    """Keeps everything in dictionaries."""

    def __init__(self) -> None:
        self.experiments: dict[str, MemoryExperiment] = {}
        self.outage: str | None = None
        """While set, nothing is delivered, for this reason."""

    def deliver(self, experiment: str, records: Sequence[Record]) -> Delivery:
        """Deliver a batch that belongs to one experiment."""
        if self.outage is not None:
            return Delivery(delivered=(), error=self.outage)
        kept = self.experiments.setdefault(experiment, MemoryExperiment())
        refused: dict[int, str] = {}
        for position, record in enumerate(records):
            try:
                _apply(kept, record)
            except (ValueError, OSError) as error:
                refused[position] = str(error)
        delivered = [position for position in range(len(records)) if position not in refused]
        return Delivery(delivered=delivered, refused=refused)


def _apply(experiment: MemoryExperiment, record: Record) -> None:
    if isinstance(record, ExperimentDescribed):
        experiment.tags.update(record.tags)
        experiment.note = experiment.note if record.note is None else record.note
        return
    if isinstance(record, RunStarted):
        experiment.runs.setdefault(
            record.run_key,
            MemoryRun(name=record.name, parent_key=record.parent_key, started_at_ms=record.at_ms),
        )
    run = experiment.runs.get(record.run_key)
    if run is None:
        raise ValueError(f"run {record.run_key} is unknown: its start was never delivered")
    _apply_to_run(run, record)


def _apply_to_run(run: MemoryRun, record: RunRecord) -> None:
    match record:
        case RunStarted():
            run.tags.update(record.tags)
            _add_params(run, record.params)
        case RunReopened():
            run.status = "RUNNING"
        case MetricsLogged():
            run.points |= {
                (name, record.step, record.at_ms, value) for name, value in record.values.items()
            }
        case TagsSet():
            run.tags.update(record.tags)
        case ParamsLogged():
            _add_params(run, record.params)
        case DatasetLogged():
            run.datasets.add((record.name, record.digest))
        case ArtifactLogged():
            run.artifacts.update(_read(Path(record.path), record.artifact_path))
        case TextLogged():
            run.artifacts[record.artifact_file] = record.text.encode()
        case RunEnded():
            run.status, run.ended_at_ms = record.status, record.at_ms


def _add_params(run: MemoryRun, params: Mapping[str, ParamValue]) -> None:
    for name, value in params.items():
        if run.params.setdefault(name, str(value)) != str(value):
            raise ValueError(f"parameter {name} is {run.params[name]} and cannot become {value}")


def _read(path: Path, artifact_path: str | None) -> dict[str, bytes]:
    folder = f"{artifact_path}/" if artifact_path else ""
    if path.is_dir():
        return {
            f"{folder}{file.relative_to(path).as_posix()}": file.read_bytes()
            for file in path.rglob("*")
            if file.is_file()
        }
    return {f"{folder}{path.name}": path.read_bytes()}
