"""The typed form of a sweep file: a description of a study, complete and frozen."""

import re
from dataclasses import dataclass
from typing import ClassVar

from hpo.domain.objective import Objective
from hpo.domain.search_space import Params, SearchSpace


def study_name_problem(name: str) -> str | None:
    """Return why `name` cannot name a study and what to write instead, or None if it can.

    A name becomes a folder, a part of trial IDs and a word on the command line.
    """
    if re.fullmatch(r"[A-Za-z0-9_](\.?[A-Za-z0-9_-])*\.?", name) and len(name) <= 100:
        return None
    plain = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9_.]+", "-", name[:100])).strip("-.")
    return (
        f"is {name[:100]!a}, must be at most 100 letters, digits, '-', '_' and single '.',"
        f" not beginning with '-' or '.', write {plain or 'lr-digits'}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneAtATime:
    """The baseline, and every other value of every parameter alone."""

    name: ClassVar[str] = "one-at-a-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Every combination of the parameters' points."""

    name: ClassVar[str] = "grid"


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSearch:
    """Independent draws, each derived from the study seed and its index."""

    name: ClassVar[str] = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tpe:
    """Multivariate tree-structured Parzen estimator (Optuna's)."""

    name: ClassVar[str] = "tpe"
    startup_trials: int = 10
    """Random draws before the estimator proposes; at least 1."""


Strategy = OneAtATime | Grid | RandomSearch | Tpe


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPruning:
    """Every trial trains to its end."""

    name: ClassVar[str] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianPruning:
    """Stops a trial whose best so far is worse than the median of the others at the same epoch."""

    name: ClassVar[str] = "median"
    startup_trials: int = 5
    """Finished trials before any is stopped; at least 1."""
    warmup_epochs: int = 1
    """Epochs in which no trial is stopped; at least 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessiveHalving:
    """Asynchronous successive halving: at each rung only the best fraction goes on."""

    name: ClassVar[str] = "asha"
    min_epochs: int = 1
    """The first rung; at least 1."""
    reduction_factor: int = 3
    """One in so many goes on, to a rung so many times further; at least 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperband:
    """Successive halving in several brackets that start at different rungs."""

    name: ClassVar[str] = "hyperband"
    min_epochs: int = 1
    """The first rung of the most aggressive bracket; at least 1."""
    reduction_factor: int = 3
    """As for `SuccessiveHalving`."""


Pruner = NoPruning | MedianPruning | SuccessiveHalving | Hyperband


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When a study ends; whichever comes first. None means no such limit."""

    num_trials: int | None = None
    """Configurations times replicates."""
    hours: float | None = None
    """Wall-clock hours of running, over all its runs."""
    until: float | None = None
    """The study ends when a trial's objective reaches this value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Where trials run. Never changes a result, so it may change between runs of a study."""

    workers: int | None = None
    """Attempts at one time; None means as many as fit."""
    devices: tuple[str, ...] | None = None
    """Devices to use: `cpu`, `cuda:0`, `mps`; None means every GPU, or else the CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """Where MLflow records go."""

    uri: str | None = None
    """An MLflow tracking URI; None means the store in the home."""
    experiment: str | None = None
    """The experiment's name; None means the study's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One study, described."""

    study: str
    """Its name; see `study_name_problem`."""
    description: str = ""
    objectives: tuple[Objective, ...]
    """One today; a tuple so that several fit."""
    strategy: Strategy
    baseline: Params
    """The control configuration, complete: defaults filled in."""
    space: SearchSpace
    first: tuple[Params, ...] = ()
    """Points to run before the strategy's own, each a part of the baseline's keys."""
    replicates: int = 1
    """How many paired seeds each configuration gets."""
    seed: int = 0
    pruner: Pruner
    budget: Budget
    execution: Execution
    tracking: Tracking

    @property
    def objective(self) -> Objective:
        """The first objective."""
        return self.objectives[0]
