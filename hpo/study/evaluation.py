"""A trial's best checkpoint on one split, beside what was recorded of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from hpo.clock import Clock
from hpo.domain import event as ev
from hpo.domain.study import Study
from hpo.domain.trial import Trial
from hpo.errors import NotFoundError
from hpo.execution.call import call
from hpo.storage.ledger import Ledger
from hpo.study.compose import WORKER, open_executor, training_request
from hpo.study.home import Home
from hpo.study.ownership import own

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a checkpoint achieves on a split."""

    trial: str
    split: str
    epoch: int
    """Of the checkpoint."""
    device: str
    scores: Mapping[str, float]
    """By name: `loss`, `accuracy`."""
    recorded: Mapping[str, float]
    """The same as the trial reported it in that epoch; empty but for validation."""


def evaluate_trial(
    study: Study, trial: Trial, split: str, *, home: Home, ledger: Ledger, clock: Clock
) -> Evaluation:
    """Evaluate a trial's best checkpoint; a reading of the test split is put on record.

    Args:
        study: the trial's.
        trial: with a checkpoint of its best epoch.
        split: one of `SPLITS`.
        home: where the checkpoint is.
        ledger: gets a remark when the test split is read.
        clock: dates it.

    Raises:
        NotFoundError: the trial has no checkpoint.
        OwnedError: the test split is asked for while another process runs the study.
    """
    name = f"{study.name}/{trial.number}"
    if trial.best is None:
        raise NotFoundError(f"{name} has no checkpoint; it is {trial.state.value}")
    if split == "test":
        with own(home.owner_lock(study.name), study.name):
            at = clock.now().isoformat()
            note = f"its test split was read by `hpo evaluate` at {at[:16]}"
            ledger.apply(study.uid, [ev.Noted(number=trial.number, note=note, at=at)])
    with open_executor(study.sweep.execution) as executor:
        slot = executor.slots[0]
        item = {
            "number": trial.number,
            "uri": trial.best.uri,
            "sha256": trial.best.sha256,
            "request": training_request(home, study.sweep, trial, slot),
        }
        payload = {"home": str(home.root), "split": split, "items": [item]}
        scores = call(executor, f"{WORKER}:evaluate", payload, home.log)[str(trial.number)]
    return Evaluation(
        trial=name,
        split=split,
        epoch=trial.best.epoch,
        device=slot.device,
        scores=scores,
        recorded=_recorded(trial, trial.best.epoch, scores) if split == "val" else {},
    )


def _recorded(trial: Trial, epoch: int, scores: Mapping[str, float]) -> dict[str, float]:
    for measurement in trial.measurements:
        if measurement.epoch == epoch:
            return {
                name: measurement.metrics[f"val_{name}"]
                for name in scores
                if f"val_{name}" in measurement.metrics
            }
    return {}
