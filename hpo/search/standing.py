"""Where a configuration stands at an epoch: the number that pruners compare."""

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from hpo.domain.objective import Objective
from hpo.domain.trial import Measurement, Role, Trial

PRUNABLE_ROLES = frozenset({Role.POINT, Role.NUISANCE})
"""The roles of trials that may be stopped."""

PEER_ROLES = PRUNABLE_ROLES | {Role.BASELINE}
"""The roles that trials are compared with. Confirmations repeat the best: an unfair bar."""


DIGITS = (4, 6, 9, 17)
"""How many a reason may show: the first where they suffice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the replicates of one configuration that reached an epoch say together."""

    loss: float
    """Mean of their values so far, so that smaller is better."""
    num_trials: int
    """How many they are."""


class Standings:
    """Gives standings, and remembers each trial's values so far.

    The memory changes no answer. It makes a judgement cost a look-up per trial of the study rather
    than a walk over all of its epochs.
    """

    def __init__(self) -> None:
        self._curves: dict[int, _Curve] = {}

    def own(
        self, trial: Trial, history: Sequence[Trial], epoch: int, objective: Objective
    ) -> Standing | None:
        """Return where the trial's configuration stands, or None when its metric is missing."""
        own_id = trial.plan.config_id
        losses = [
            self._loss(other, epoch, objective)
            for other in history
            if other.plan.config_id == own_id
            and other.plan.role in PEER_ROLES
            and other.number != trial.number
        ]
        own = self._loss(trial, epoch, objective)
        return None if own is None else _standing([own, *(x for x in losses if x is not None)])

    def peers(
        self,
        trial: Trial,
        history: Sequence[Trial],
        epoch: int,
        objective: Objective,
        is_peer: Callable[[Trial], bool] = lambda _: True,
    ) -> list[Standing]:
        """Return where the other configurations stand that reached the epoch, in any state.

        Args:
            trial: whose configuration is left out.
            history: every trial of the study.
            epoch: to compare at.
            objective: what to compare.
            is_peer: leaves further trials out.
        """
        own_id = trial.plan.config_id
        losses: dict[str, list[float]] = {}
        for other in history:
            plan = other.plan
            if plan.config_id == own_id or plan.role not in PEER_ROLES or not is_peer(other):
                continue
            loss = self._loss(other, epoch, objective)
            if loss is not None:
                losses.setdefault(plan.config_id, []).append(loss)
        return [_standing(values) for values in losses.values()]

    def _loss(self, trial: Trial, epoch: int, objective: Objective) -> float | None:
        """Return a trial's value so far as of an epoch, as a loss; None where it has none."""
        if trial.num_epochs < epoch:
            return None
        curve = self._curves.get(trial.number)
        if (
            curve is None
            or curve.measurements is not trial.measurements
            or curve.objective != objective
        ):
            curve = _Curve(trial.measurements, objective)
            self._curves[trial.number] = curve
        return curve.loss_at(epoch)


class _Curve:
    """The value of one trial as it stood after each epoch."""

    __slots__ = ("_epochs", "_losses", "measurements", "objective")

    def __init__(self, measurements: tuple[Measurement, ...], objective: Objective) -> None:
        self.measurements = measurements
        self.objective = objective
        self._epochs = [measurement.epoch for measurement in measurements]
        self._losses: list[float | None] = []
        selected: Measurement | None = None
        for measurement in measurements:
            # One step of the objective's own rule at a time: best so far, or the last.
            so_far = (measurement,) if selected is None else (selected, measurement)
            selected = objective.select(so_far)
            self._losses.append(
                None if selected is None else objective.loss(selected.metrics[objective.metric])
            )

    def loss_at(self, epoch: int) -> float | None:
        """Return the loss so far after an epoch."""
        index = bisect.bisect_right(self._epochs, epoch) - 1
        return self._losses[index] if index >= 0 else None


def _standing(losses: list[float]) -> Standing:
    return Standing(loss=fmean(losses), num_trials=len(losses))


def may_prune(trial: Trial) -> bool:
    """Tell whether a trial may be stopped at all: its role allows it and epochs are left."""
    total = total_epochs(trial)
    return trial.plan.role in PRUNABLE_ROLES and (total is None or trial.num_epochs < total)


def total_epochs(trial: Trial) -> int | None:
    """Return how many epochs a trial was planned for; None where nothing says so."""
    epochs = trial.plan.config.get("epochs")
    return epochs if isinstance(epochs, int) and not isinstance(epochs, bool) else None


def is_worse(loss: float, than: float) -> bool:
    """Tell whether a loss is above another by more than the rounding of a mean."""
    return loss > than and not math.isclose(loss, than, rel_tol=1e-9)


def phrase(standing: Standing, objective: Objective, digits: int = DIGITS[0]) -> str:
    """Return a standing in words: `val_loss 0.912`, and the number of replicates if not one."""
    mean = f" (mean of {standing.num_trials} replicates)" if standing.num_trials > 1 else ""
    return f"{objective.metric} {number(standing.loss, objective, digits)}{mean}"


def number(loss: float, objective: Objective, digits: int) -> str:
    """Return the value behind a loss as text."""
    return f"{objective.loss(loss) + 0.0:.{digits}g}"  # + 0.0 makes a zero of minus zero


def digits_to_tell_apart(loss: float, other: float) -> int:
    """Return how many digits show that two losses differ."""
    return next(
        (digits for digits in DIGITS if f"{loss:.{digits}g}" != f"{other:.{digits}g}"), DIGITS[-1]
    )
