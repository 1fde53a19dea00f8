"""Strategies that draw sweeps, documents and texts."""

import string
from typing import Any

from hypothesis import strategies as st

from hpo.domain.objective import At, Objective
from hpo.domain.search_space import Choices, Parameter, Range, SearchSpace, Value
from hpo.domain.sweep import (
    Budget,
    Execution,
    Grid,
    Hyperband,
    MedianPruning,
    NoPruning,
    OneAtATime,
    Pruner,
    RandomSearch,
    Strategy,
    SuccessiveHalving,
    Sweep,
    Tpe,
    Tracking,
    study_name_problem,
)
from hpo.sweepfile.method import direction_of

NAME = st.text(string.ascii_letters + string.digits + "_.-", min_size=1, max_size=20).filter(
    lambda name: study_name_problem(name) is None
)
KEY = st.text(string.ascii_lowercase + "_é", min_size=1, max_size=8)
TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
WORDS = """
study objective strategy baseline vary first replicates seed pruner budget execution
tracking name metric at low high log step points choices ordered trials hours until
workers devices uri experiment data lr epochs batch_size dropout model tpe grid random
asha val_loss digits auto 1e-3 010 .nan true null 30min points.csv <<
"""
NUMBER = st.one_of(
    st.floats(-1e6, 1e6, allow_nan=False), st.floats(1e-12, 1e-3), st.integers(-1000, 1000)
).map(lambda number: number + 0)  # no -0.0, which is read as 0.0


@st.composite
def parameters(draw: st.DrawFn, name: str) -> tuple[Parameter, Value]:
    """Draw a parameter and a baseline value that lies in it."""
    if draw(st.booleans()):
        kind = draw(st.sampled_from([NUMBER, TEXT, st.booleans()]))
        values = draw(st.lists(kind, min_size=2, max_size=5, unique_by=lambda v: v))
        is_number = not isinstance(values[0], bool | str)
        is_ordered = False if is_number else draw(st.booleans())
        return Choices(name=name, values=tuple(values), is_ordered=is_ordered), values[0]
    if draw(st.booleans()):
        low = draw(st.integers(1, 100))
        step = draw(st.integers(1, 10))
        high = low + step * draw(st.integers(1, 10))
        return Range(name=name, low=low, high=high, step=step, is_integer=True), high
    bound = draw(st.floats(1e-6, 1.0))
    is_log, num_points = draw(st.booleans()), draw(st.integers(2, 9))
    spread = Range(name=name, low=bound, high=bound * 10, is_log=is_log, num_points=num_points)
    return spread, bound


def objectives() -> st.SearchStrategy[Objective]:
    """Draw an objective in its natural direction."""
    return st.builds(
        lambda metric, at: Objective(metric=metric, direction=direction_of(metric), at=at),  # type: ignore[arg-type]
        st.sampled_from(["val_loss", "val_accuracy", "test/f1", "train_loss"]),
        st.sampled_from(At),
    )


@st.composite
def sweeps(draw: st.DrawFn) -> Sweep:
    """Draw any sweep that a file can mean."""
    names = draw(st.lists(KEY, min_size=1, max_size=4, unique=True))
    drawn = [draw(parameters(name)) for name in names]
    baseline: dict[str, Value] = {p.name: value for p, value in drawn}
    baseline |= draw(st.dictionaries(KEY.map(lambda k: f"fixed.{k}"), st.one_of(NUMBER, TEXT)))
    startup = draw(st.integers(1, 50))
    strategies: list[Strategy] = [
        OneAtATime(),
        Grid(),
        RandomSearch(),
        Tpe(startup_trials=startup),
    ]
    pruners: list[Pruner] = [
        NoPruning(),
        MedianPruning(startup_trials=startup, warmup_epochs=0),
        SuccessiveHalving(min_epochs=startup),
        Hyperband(reduction_factor=4),
    ]
    strategy = draw(st.sampled_from(strategies))
    first: tuple[dict[str, Value], ...] = ()
    if isinstance(strategy, RandomSearch | Tpe) and draw(st.booleans()):
        first = ({p.name: p.points[-1] for p, _ in drawn},)
    replicates = draw(st.integers(1, 5))
    trials = st.none() | st.integers(replicates, 1000)
    return Sweep(
        study=draw(NAME),
        description=draw(st.just("") | TEXT),
        objectives=(draw(objectives()),),
        strategy=strategy,
        baseline=baseline,
        space=SearchSpace(parameters=tuple(p for p, _ in drawn)),
        first=first,
        replicates=replicates,
        seed=draw(st.integers(0, 2**31 - 1)),
        pruner=draw(st.sampled_from(pruners)),
        budget=Budget(
            num_trials=draw(trials),
            hours=draw(st.none() | st.floats(1e-3, 1e4)),
            until=draw(st.none() | NUMBER.map(float)),
        ),
        execution=Execution(
            workers=draw(st.none() | st.integers(1, 64)),
            devices=draw(st.sampled_from([None, ("cpu",), ("cuda:0", "cuda:11"), ("mps",)])),
        ),
        tracking=Tracking(
            uri=draw(st.sampled_from([None, "sqlite:///a.db", "http://h:5000"])),
            experiment=draw(st.none() | TEXT),
        ),
    )


def documents() -> st.SearchStrategy[Any]:
    """Draw documents that use the sweep file's own words in wild places."""
    words = st.sampled_from(WORDS.split())
    scalars = st.one_of(words, NUMBER, st.booleans(), st.none(), st.text(max_size=8), st.floats())
    trees = st.recursive(
        scalars,
        lambda below: st.lists(below, max_size=4) | st.dictionaries(words, below, max_size=5),
        max_leaves=12,
    )
    return st.dictionaries(words, trees, max_size=8)
