"""What runs in the fresh process of a reproduction: trains, and prints every epoch as a line.

It is started from stored code of any earlier version, so what it reads and prints is a promise:
`REPRODUCTION_VERSION` changes when that does.
"""

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpo.clock import SystemClock
from hpo.domain.decision import CONTINUE, Action, Decision
from hpo.domain.trial import Measurement
from hpo.training.data.prepare import prepare_data
from hpo.training.task import PublishedCheckpoint
from hpo.training.tasks.classifier import train_trial
from tracking.checkpoints import FileCheckpointStore

REPRODUCTION_VERSION = 1


class LineReporter:
    """Prints measurements as lines of JSON, and ends the training where the trial ended."""

    def __init__(self, last_epoch: int) -> None:
        self._last_epoch = last_epoch

    def progress(self, epoch: int, fraction: float) -> None:
        """Drop it: lines are for epochs."""

    def report(self, measurement: Measurement) -> Decision:
        """Print an epoch."""
        _say({"measurement": dataclasses.asdict(measurement)})
        if measurement.epoch >= self._last_epoch:
            return Decision(action=Action.PRUNE, reason="the trial ended here")
        return CONTINUE

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        """Drop it: checkpoints of a reproduction are thrown away."""


def forbid(folders: Sequence[str], allowed: str | None = None) -> None:
    """Refuse to open anything under these folders from now on, so that nothing can be copied.

    Args:
        folders: what must not be read.
        allowed: the one file that may, since the trial itself began from it.
    """
    exempt = None if allowed is None else os.path.realpath(allowed)
    roots = tuple(os.path.realpath(folder) + os.sep for folder in folders)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if path.startswith(roots) and path != exempt:
                raise PermissionError(f"a reproduction must not read {path}")

    sys.addaudithook(watch)


def _say(document: Mapping[str, Any]) -> None:
    """Print a line of the answer, past whatever `sys.stdout` stands for meanwhile."""
    if sys.__stdout__ is not None:
        sys.__stdout__.write(json.dumps(document) + "\n")
        sys.__stdout__.flush()


def main() -> None:
    """Train what stdin describes and print it."""
    # What training or a user's code prints on the way is no line of the answer.
    with contextlib.redirect_stdout(sys.stderr):
        _reproduce()


def _reproduce() -> None:
    # Here and not at the top, since it imports what the stored version of it knows.
    from hpo.study.worker import request_from  # noqa: PLC0415

    asked = json.load(sys.stdin)
    if asked["version"] != REPRODUCTION_VERSION:
        sys.exit(f"the stored code reads version {REPRODUCTION_VERSION}, not {asked['version']}")
    request = request_from(asked["request"])
    card = prepare_data(request.config, request.cache_dir, request.split_seed)
    _say({"data_fingerprint": card.fingerprint})
    forbid(asked["forbidden"], request.init_from.path if request.init_from else None)
    outcome = train_trial(
        request,
        LineReporter(asked["last_epoch"]),
        FileCheckpointStore(Path(asked["scratch"])),
        SystemClock(),
        None,
    )
    _say({"outcome": dataclasses.asdict(outcome)})


if __name__ == "__main__":
    main()
