"""What `init_from: study/number@epoch` stands for: a checkpoint file of another trial."""

import contextlib
from collections.abc import Mapping
from typing import Any

from hpo.domain.search_space import Choices
from hpo.domain.sweep import Sweep
from hpo.domain.trial import CheckpointRef
from hpo.errors import NotFoundError
from hpo.storage.ledger import Ledger
from hpo.study import archive
from hpo.study.home import Home


def beginning_of(config: Mapping[str, object], home: Home) -> dict[str, Any] | None:
    """Return path and sha256 of the weights that a configuration begins from, as plain JSON.

    None where it begins from new weights, or names a file itself.

    Raises:
        NotFoundError: there is no such study, trial or checkpoint.
    """
    text = config.get("init_from", "none")
    if not _is_trial(text):
        return None
    with contextlib.closing(archive.open_ledger(home)) as ledger:
        kept = _find(str(text), ledger)
    return {"path": str(home.root / kept.uri), "sha256": kept.sha256}


def check_beginnings(sweep: Sweep, ledger: Ledger) -> None:
    """Look up every checkpoint that trials of a sweep will begin from.

    Raises:
        NotFoundError: one of them is not there.
    """
    beginnings = [sweep.baseline.get("init_from", "none")]
    if "init_from" in sweep.space.names:
        varied = sweep.space["init_from"]
        beginnings += varied.values if isinstance(varied, Choices) else []
    for text in beginnings:
        if _is_trial(text):
            _find(str(text), ledger)


def _is_trial(text: object) -> bool:
    return text != "none" and not str(text).endswith(".safetensors")


def _find(text: str, ledger: Ledger) -> CheckpointRef:
    """Return a checkpoint: `study/number` is its best epoch, `@epoch` one that is kept."""
    name, _, epoch = text.partition("@")
    study, trial = archive.find_trial(ledger, name)
    kept = ledger.checkpoint(study.uid, trial.number, f"@{epoch}" if epoch else "best")
    if kept is None and epoch and trial.best is not None and trial.best.epoch == int(epoch):
        kept = trial.best
    if kept is None:
        what = f"epoch {epoch}, which keep_every did not keep" if epoch else "a best epoch"
        raise NotFoundError(f"init_from is {text}, but {name} has no checkpoint of {what}")
    return kept


def devices_per_trial(sweep: Sweep) -> int:
    """Return how many devices the largest trial of a sweep takes."""
    counts = [int(sweep.baseline.get("devices_per_trial", 1))]
    if "devices_per_trial" in sweep.space.names:
        varied = sweep.space["devices_per_trial"]
        points = varied.values if isinstance(varied, Choices) else (varied.high,)
        counts += [int(point) for point in points]
    return max(counts)
