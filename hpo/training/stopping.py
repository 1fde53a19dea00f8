"""Ends a training that no longer gets better."""

from collections.abc import Mapping
from typing import Any

from hpo.domain.objective import Direction, Objective


class Patience:
    """Counts epochs since the validation metric was last better than ever before.

    The metric is the objective's where that is measured on the validation split, otherwise the
    validation loss: a training loss gets better as long as it is trained.

    Source: Prechelt 1998, "Early Stopping - But When?", criterion UP, with one epoch a strip.
    """

    def __init__(self, num_epochs: int, objective: Objective) -> None:
        """Begin with nothing seen.

        Args:
            num_epochs: without a new best after which training is over; 0 never is.
            objective: of the study.
        """
        self._num_epochs = num_epochs
        is_of_validation = objective.metric.startswith("val_")
        self._objective = (
            objective
            if is_of_validation
            else Objective(metric="val_loss", direction=Direction.MINIMIZE)
        )
        self._best: float | None = None
        self._num_stale = 0

    def see(self, metrics: Mapping[str, float]) -> bool:
        """Take in an epoch; return whether training is over."""
        value = metrics[self._objective.metric]
        if self._best is None or self._objective.is_better(value, self._best):
            self._best, self._num_stale = value, 0
        else:
            self._num_stale += 1
        return self.is_over

    @property
    def is_over(self) -> bool:
        """Whether training should end."""
        return 0 < self._num_epochs <= self._num_stale

    @property
    def reason(self) -> str:
        """Why it is over, for people; empty while it is not."""
        if not self.is_over:
            return ""
        return (
            f"ended early: {self._objective.metric} was not better than {self._best:.6g}"
            f" in {self._num_stale} epochs"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return what was seen."""
        return {"best": self._best, "num_stale": self._num_stale}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what was seen."""
        self._best, self._num_stale = state["best"], state["num_stale"]
