"""Which epoch's value is a trial's value."""

import dataclasses
import json
import math

import pytest

from hpo.domain.objective import At, Direction, Objective
from hpo.domain.trial import Measurement


def curve(*values: float, metric: str = "val_loss") -> list[Measurement]:
    return [
        Measurement(epoch=epoch, examples_seen=epoch * 100, metrics={metric: value})
        for epoch, value in enumerate(values, start=1)
    ]


def selected(objective: Objective, measurements: list[Measurement]) -> int | None:
    measurement = objective.select(measurements)
    return None if measurement is None else measurement.epoch


@pytest.mark.parametrize(
    ("direction", "at", "values", "epoch"),
    [
        (Direction.MINIMIZE, At.BEST, (3, 1, 2), 2),
        (Direction.MAXIMIZE, At.BEST, (3, 1, 2), 1),
        (Direction.MINIMIZE, At.LAST, (3, 1, 2), 3),
        (Direction.MINIMIZE, At.BEST, (2, 1, 1), 2),
        (Direction.MAXIMIZE, At.BEST, (1, 2, 2), 2),
        (Direction.MINIMIZE, At.BEST, (2, math.nan, -math.inf), 1),
        (Direction.MAXIMIZE, At.BEST, (math.inf, 2, math.nan), 2),
        (Direction.MINIMIZE, At.LAST, (2, 1, math.nan), 2),
        (Direction.MINIMIZE, At.BEST, (math.nan,), None),
        (Direction.MINIMIZE, At.BEST, (), None),
    ],
)
def test_the_selected_epoch_is_finite_and_the_earliest_of_the_best(
    direction: Direction, at: At, values: tuple[float, ...], epoch: int | None
) -> None:
    objective = Objective(metric="val_loss", direction=direction, at=at)
    assert selected(objective, curve(*values)) == epoch


def test_measurements_without_the_metric_are_passed_over() -> None:
    objective = Objective(metric="val_loss")
    mixed = [*curve(1.0, metric="other"), *curve(5.0, 4.0)]
    assert selected(objective, mixed) == 2
    assert selected(objective, curve(1.0, metric="other")) is None


def test_smaller_losses_are_better_in_either_direction() -> None:
    small = Objective(metric="m", direction=Direction.MINIMIZE)
    large = Objective(metric="m", direction=Direction.MAXIMIZE)
    assert small.is_better(1, than=2)
    assert not small.is_better(2, than=2)
    assert large.is_better(2, than=1)
    assert large.loss(3) == -3
    assert small.loss(3) == 3


@pytest.mark.parametrize("objective", [Objective(metric="m"), Objective(metric="m", at=At.LAST)])
def test_an_objective_read_back_from_json_judges_alike(objective: Objective) -> None:
    """Every study once kept its worst epoch as best: a worker's direction was mere text."""
    read = Objective(**json.loads(json.dumps(dataclasses.asdict(objective))))
    assert read == objective
    assert read.is_better(1, than=2)
    assert read.at is objective.at


def test_a_direction_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="least"):
        Objective(metric="m", direction="least")  # type: ignore[arg-type]
