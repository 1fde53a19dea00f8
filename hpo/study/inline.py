"""One trial in this very process, to be looked at: breakpoints stop it, nothing is recorded."""

import contextlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hpo.clock import SystemClock
from hpo.domain.decision import CONTINUE, Decision
from hpo.domain.sweep import Sweep
from hpo.domain.trial import Measurement
from hpo.errors import HpoError
from hpo.execution.inventory import take_inventory
from hpo.execution.placement import place
from hpo.study.compose import baseline_request
from hpo.study.home import Home
from hpo.study.worker import request_from
from hpo.training.debugging import debugging
from hpo.training.layers import NonFiniteLayerError
from hpo.training.task import BadConfigError, OutcomeKind, PublishedCheckpoint
from hpo.training.tasks.classifier import train_trial
from tracking.checkpoints import FileCheckpointStore

_IN_ONE_PROCESS = {"devices_per_trial": 1, "loader.workers": 0, "compile": False}
"""So that a breakpoint in a model or in a data source stops this process."""


@dataclass(slots=True)
class _Told:
    """Says a line for each epoch; fulfils `Reporter`."""

    say: Callable[[str], None]
    epoch: int = 0

    def progress(self, epoch: int, fraction: float) -> None:
        """Say how far the epoch is."""
        self.say(f"  epoch {epoch}: {fraction:.0%}")

    def report(self, measurement: Measurement) -> Decision:
        """Say an epoch's metrics and go on."""
        self.epoch = measurement.epoch
        shown = ("train_loss", "val_loss", "val_accuracy", "lr", "grad_norm", "epoch_s")
        metrics = "  ".join(
            f"{name} {measurement.metrics[name]:.4g}"
            for name in shown
            if name in measurement.metrics
        )
        self.say(f"  epoch {measurement.epoch}: {metrics}")
        return CONTINUE

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        """Nothing is kept."""


def train_inline(
    sweep: Sweep, home: Home, *, is_debugging: bool, say: Callable[[str], None]
) -> tuple[str, ...]:
    """Train a sweep's baseline here and return what its curve says.

    Args:
        sweep: whose baseline, first replicate.
        home: where decoded data is kept; nothing else of it is changed.
        is_debugging: whether every layer and gradient is checked for numbers that are not finite.
        say: takes a line for each epoch.

    Raises:
        HpoError: the training failed; its traceback is printed before.
    """
    slot = place(sweep.execution, take_inventory())[0]
    if slot.visible_device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = slot.visible_device
    payload = baseline_request(home, sweep, slot)
    payload["config"] = {
        **payload["config"],
        **{name: value for name, value in _IN_ONE_PROCESS.items() if name in payload["config"]},
    }
    told = _Told(say)
    where = debugging() if is_debugging else contextlib.nullcontext()
    # The trial's log goes where the epochs go; stdout is for answers.
    log = contextlib.redirect_stdout(sys.stderr)
    with tempfile.TemporaryDirectory(prefix="hpo-inline-") as scratch, where, log:
        store = FileCheckpointStore(Path(scratch))
        try:
            outcome = train_trial(request_from(payload), told, store, SystemClock(), None)
        except BadConfigError as error:
            raise HpoError(str(error)) from error
        except NonFiniteLayerError as error:
            raise HpoError(f"in epoch {told.epoch + 1}, {error}") from error
        except Exception as error:
            traceback.print_exc()
            text = str(error).splitlines()[0] if str(error) else ""
            raise HpoError(
                f"in epoch {told.epoch + 1}, {type(error).__name__}: {text}; see the traceback"
            ) from error
    if outcome.kind is OutcomeKind.DIVERGED:
        hint = "" if is_debugging else "; --debug names the first layer"
        raise HpoError(f"the training diverged: {outcome.message}{hint}")
    return outcome.findings
