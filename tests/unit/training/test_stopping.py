"""Patience ends what no longer gets better, by the validation metric."""

from hpo.domain.objective import Direction, Objective
from hpo.training.stopping import Patience


def epochs_until_over(patience: Patience, name: str, values: list[float]) -> int | None:
    for epoch, value in enumerate(values, 1):
        if patience.see({name: value, "val_loss": 1.0 if name != "val_loss" else value}):
            return epoch
    return None


def test_it_is_over_after_so_many_epochs_without_a_new_best() -> None:
    patience = Patience(2, Objective(metric="val_loss"))
    assert epochs_until_over(patience, "val_loss", [3, 2, 2, 1, 1.5, 1]) == 6
    assert patience.reason == "ended early: val_loss was not better than 1 in 2 epochs"


def test_0_never_ends() -> None:
    patience = Patience(0, Objective(metric="val_loss"))
    assert epochs_until_over(patience, "val_loss", [1.0] * 50) is None
    assert patience.reason == ""


def test_an_accuracy_is_better_when_it_is_higher() -> None:
    objective = Objective(metric="val_accuracy", direction=Direction.MAXIMIZE)
    values = [0.1, 0.2, 0.3, 0.3, 0.2]
    assert epochs_until_over(Patience(2, objective), "val_accuracy", values) == 5


def test_an_objective_of_training_is_judged_by_the_validation_loss() -> None:
    patience = Patience(1, Objective(metric="train_loss"))
    assert epochs_until_over(patience, "train_loss", [3, 2, 1]) == 2


def test_it_goes_on_counting_where_it_stood() -> None:
    first, second = (Patience(2, Objective(metric="val_loss")) for _ in range(2))
    for value in (1.0, 2.0):
        first.see({"val_loss": value})
    second.load_state_dict(first.state_dict())
    assert second.see({"val_loss": 1.5})
