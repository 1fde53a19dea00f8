"""Sweep file -> `Sweep`: `load_sweep`, `parse_sweep`, `read_sweep`; and back: `dump_sweep`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpo.domain.search_space import SearchSpace
from hpo.domain.sweep import Sweep, study_name_problem
from hpo.domain.task import TaskSchema
from hpo.sweepfile.check import check_plan, check_points
from hpo.sweepfile.document import MappingNode, ScalarNode, compose, index_places
from hpo.sweepfile.dump import dump_sweep
from hpo.sweepfile.first import read_first
from hpo.sweepfile.key import MOST_REPLICATES, MOST_SEED
from hpo.sweepfile.method import (
    read_budget,
    read_execution,
    read_objective,
    read_pruner,
    read_strategy,
    read_tracking,
)
from hpo.sweepfile.override import apply_overrides
from hpo.sweepfile.problem import Problems, SweepFileError
from hpo.sweepfile.section import Section
from hpo.sweepfile.vary import flatten_baseline, read_baseline, read_parameters
from hpo.sweepfile.warning import sweep_warnings

__all__ = [
    "SweepFile",
    "SweepFileError",
    "dump_sweep",
    "load_sweep",
    "parse_sweep",
    "read_sweep",
    "sweep_warnings",
]

MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFile:
    """A sweep file that was read."""

    sweep: Sweep
    text: str
    """As written, without what `--set` laid over it."""
    warnings: tuple[str, ...]
    """`file:line: key: what weakens the study`, for people; the study can run."""


def parse_sweep(
    text: str, *, file: str, task: TaskSchema | None, overrides: Sequence[str] = ()
) -> Sweep:
    """Read a sweep from the text of its file.

    Args:
        text: the whole file.
        file: its path, for messages, for the study's default name and for files it names.
        task: knows the baseline's keys. None takes the baseline as it stands, complete; so are
            studies read back from the ledger.
        overrides: `key=value`, laid over the file in this order; see `apply_overrides`.

    Raises:
        SweepFileError: with every problem found, each with its place.
    """
    return read_sweep(text, file=file, task=task, overrides=overrides).sweep


def load_sweep(path: str | Path, task: TaskSchema | None, overrides: Sequence[str] = ()) -> Sweep:
    """Read a sweep file; see `parse_sweep`.

    Raises:
        SweepFileError: it cannot be read, or has problems.
    """
    return load_sweep_file(path, task, overrides).sweep


def load_sweep_file(
    path: str | Path, task: TaskSchema | None, overrides: Sequence[str] = ()
) -> SweepFile:
    """Read a sweep file with its text and warnings; see `parse_sweep`.

    Raises:
        SweepFileError: it cannot be read, or has problems.
    """
    file = str(path) if str(path).isprintable() else ascii(str(path))
    return read_sweep(_text_of(Path(path), file), file=file, task=task, overrides=overrides)


def _text_of(path: Path, file: str) -> str:
    try:
        if path.is_dir():
            raise SweepFileError(f"{file}: is a folder, name a sweep file in it")
        if not path.exists():
            raise SweepFileError(
                f"{file}: does not exist, name a sweep file such as sweeps/lr.yaml"
            )
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise SweepFileError(f"{file}: is no plain file of at most 1 MB, name a sweep file")
        return _decode(path.read_bytes(), file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a possible name"
        raise SweepFileError(f"{file}: cannot be read ({reason}), name a sweep file") from None


def _decode(content: bytes, file: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SweepFileError(f"{file}:{line}: is not UTF-8 text, save it as UTF-8") from None


def read_sweep(
    text: str, *, file: str, task: TaskSchema | None, overrides: Sequence[str] = ()
) -> SweepFile:
    """Read a sweep with its warnings; see `parse_sweep`.

    Raises:
        SweepFileError: with every problem found, each with its place.
    """
    problems = Problems(file)
    root = compose(text.removeprefix("\ufeff"), file=file, problems=problems)
    if not isinstance(root, MappingNode):
        raise SweepFileError(
            f"{root.place}: is not a mapping, write 'key: value' lines such as 'baseline:'"
        )
    root = flatten_baseline(root, problems)
    root = apply_overrides(root, overrides, task, problems)
    problems.places = dict(index_places(root))
    sweep = _sweep(Section(root, "", problems), file, task)
    return SweepFile(
        sweep=sweep, text=text, warnings=tuple(sweep_warnings(sweep, task, problems.places))
    )


def _sweep(top: Section, file: str, task: TaskSchema | None) -> Sweep:
    problems = top.problems
    top.allow("")
    study = _study_name(top, file)
    objective = read_objective(top, task)
    strategy = read_strategy(top)
    baseline_section, vary_section = _required(top, "baseline"), _required(top, "vary")
    baseline = read_baseline(baseline_section, task) if baseline_section else None
    parameters = read_parameters(vary_section, task) if vary_section else []
    replicates = top.integer("replicates", low=1, high=MOST_REPLICATES) or 1
    seed = top.integer("seed", low=0, high=MOST_SEED) or 0
    pruner = read_pruner(top, strategy)
    first = read_first(top, parameters, strategy, task, Path(file).parent)
    budget = read_budget(top, strategy, objective, replicates)
    execution, tracking = read_execution(top), read_tracking(top)
    description = _description(top)
    if strategy is not None and baseline is not None:
        check_plan(strategy, baseline, parameters, problems)
        if task is not None:
            check_points(strategy, baseline, parameters, task, problems)
    problems.check()
    if objective is None or strategy is None or baseline is None:  # each has noted a problem
        raise AssertionError
    return Sweep(
        study=study,
        description=description,
        objectives=(objective,),
        strategy=strategy,
        baseline=baseline,
        space=SearchSpace(parameters=tuple(parameters)),
        first=first,
        replicates=replicates,
        seed=seed,
        pruner=pruner,
        budget=budget,
        execution=execution,
        tracking=tracking,
    )


def _required(top: Section, key: str) -> Section | None:
    if key not in top.node.entries:
        top.problems.add("", f"lacks {key}, add '{key}:' with keys and values below it")
    return top.section(key)


def _study_name(top: Section, file: str) -> str:
    if "study" not in top.node.entries:
        stem = Path(file).stem
        problem = study_name_problem(stem)
        if problem:
            top.problems.add("", f"the file's name {problem.replace('write', 'write study:', 1)}")
        return stem
    name = top.text("study")
    if name is not None and (problem := study_name_problem(name)):
        top.problems.add("study", problem)
    return name or ""


def _description(top: Section) -> str:
    node = top.node.entries.get("description")
    if node is None or (isinstance(node, ScalarNode) and node.value in (None, "")):
        return ""
    return top.text("description") or ""
