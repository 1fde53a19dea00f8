"""An objective that was text once is an objective again."""

from dataclasses import asdict

from hpo.domain.objective import At, Direction, Objective


def test_an_objective_survives_its_json_form() -> None:
    objective = Objective(metric="val_loss", at=At.LAST)
    plain = {key: str(value) for key, value in asdict(objective).items()}
    assert Objective(**plain) == objective  # type: ignore[arg-type]
    assert Objective(**plain).direction is Direction.MINIMIZE  # type: ignore[arg-type]
    assert Objective(**plain).is_better(0.1, 0.2)  # type: ignore[arg-type]
