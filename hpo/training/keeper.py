"""Which checkpoints are written, when, and which are removed."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any, Final

from torch import Tensor, nn

from hpo.clock import Clock
from hpo.domain.objective import At, Objective
from hpo.domain.trial import TIMING_METRICS, Measurement
from hpo.training.state import TrainState
from hpo.training.task import PublishedCheckpoint, Reporter
from tracking.checkpoints import CheckpointStore

LAST_EVERY_S: Final = 10.0
"""Work that a killed attempt may lose; publishing 2 MB takes about 5 ms."""


class BestSoFar:
    """The best epoch: its value, its weights in memory, and its checkpoint once it is written."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._value: float | None = None
        self.unwritten: tuple[Measurement, dict[str, Tensor]] | None = None
        """The best epoch and its weights, as long as no checkpoint holds them."""
        self.published: PublishedCheckpoint | None = None
        """The newest checkpoint of kind `best`; of an earlier epoch while `unwritten` is set."""

    def consider(self, measurement: Measurement, model: nn.Module) -> None:
        """Take over the epoch if it is the best, the earliest of equals; with `at: last` it is."""
        value = measurement.metrics[self._objective.metric]
        if (
            self._value is None
            or self._objective.at is At.LAST
            or self._objective.is_better(value, self._value)
        ):
            self._value = value
            weights = {
                name: tensor.detach().clone() for name, tensor in model.state_dict().items()
            }
            self.unwritten = (measurement, weights)

    def state_dict(self) -> dict[str, Any]:
        """Return value and checkpoint; every checkpoint `last` is written after its best."""
        return {
            "value": self._value,
            "published": None if self.published is None else asdict(self.published),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore value and checkpoint."""
        self._value = state["value"]
        published = state["published"]
        self.published = None if published is None else PublishedCheckpoint(**published)
        self.unwritten = None


EPOCH_PREFIX: Final = "epoch-"
"""How the names of checkpoints begin that `keep_every` asked for."""


class CheckpointKeeper:
    """Keeps two checkpoints of a trial: `last`, which resumes it, and `best`, which is exported.

    Both are written at the same moments, best first, so that a `last` on record never names a
    best that is not on disk. Older ones go only when both new ones are on record. Where asked, the
    weights of every n-th epoch are kept too, of kind `@n`, and never removed.
    """

    def __init__(
        self,
        store: CheckpointStore,
        reporter: Reporter,
        clock: Clock,
        state: TrainState,
        objective: Objective,
        *,
        keep_every: int = 0,
    ) -> None:
        """Start with nothing written.

        Args:
            store: the trial's own; whatever else it lists is removed as outdated.
            reporter: hears of every checkpoint.
            clock: measures the time between checkpoints.
            state: what `last` holds; the best so far is registered in it.
            objective: decides which epoch is the best.
            keep_every: epochs between two whose weights are kept for good; 0 keeps none.
        """
        self._keep_every = keep_every
        self._store = store
        self._reporter = reporter
        self._clock = clock
        self._state = state
        self._best = BestSoFar(objective)
        state.register("best", self._best)
        self._kept_at_s = clock.monotonic()

    def restore(self, last: PublishedCheckpoint) -> None:
        """Put the training where a checkpoint `last` was written, and restate what is the best.

        Raises:
            CheckpointDamagedError: it, or the best that it names, is missing or damaged.
        """
        checkpoint = self._store.open(last.uri, last.sha256)
        self._state.restore(checkpoint.tensors, checkpoint.state["parts"])
        best = self._best.published
        if best is not None:
            self._store.open(best.uri, best.sha256)
            # An attempt that died between `best` and `last` may have put a later best on record.
            self._reporter.published("best", best)

    def consider(self, measurement: Measurement, model: nn.Module) -> None:
        """Look at a measured epoch: it may be the best, and one to keep."""
        self._best.consider(measurement, model)
        if self._keep_every and measurement.epoch % self._keep_every == 0:
            self._keep_for_good(measurement, model.state_dict())

    def _keep_for_good(self, measurement: Measurement, weights: Mapping[str, Tensor]) -> None:
        kept = self._publish(f"@{measurement.epoch}", measurement, weights)
        for uri in self._store.list():  # what an earlier attempt may have left of this epoch
            name = PurePosixPath(uri).name
            if name.startswith(f"{EPOCH_PREFIX}{measurement.epoch:05d}-") and uri != kept.uri:
                self._store.delete(uri)

    def keep(self, epoch: int, *, is_due: bool) -> None:
        """Write both checkpoints after an epoch: when `is_due`, or 10 s after the ones before."""
        if not is_due and self._clock.monotonic() - self._kept_at_s < LAST_EVERY_S:
            return
        if self._best.unwritten is not None:
            measurement, weights = self._best.unwritten
            self._best.published = self._publish("best", measurement, weights)
            self._best.unwritten = None
        tensors, parts = self._state.capture()
        last = self._put("last", epoch, tensors, {"parts": parts})
        kept = {last.uri} | ({self._best.published.uri} if self._best.published else set())
        for uri in self._store.list():
            if uri not in kept and not PurePosixPath(uri).name.startswith(EPOCH_PREFIX):
                self._store.delete(uri)
        self._kept_at_s = self._clock.monotonic()

    def _publish(
        self, kind: str, measurement: Measurement, weights: Mapping[str, Tensor]
    ) -> PublishedCheckpoint:
        """Write evaluated weights with what was measured of them."""
        evaluated = {
            # what measures the machine says nothing about the weights
            "metrics": {
                name: value
                for name, value in measurement.metrics.items()
                if name not in TIMING_METRICS
            },
            "examples_seen": measurement.examples_seen,
        }
        return self._put(kind, measurement.epoch, weights, evaluated)

    def _put(
        self, kind: str, epoch: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]
    ) -> PublishedCheckpoint:
        stem = f"{kind}-" if kind in ("last", "best") else EPOCH_PREFIX
        name = f"{stem}{epoch:05d}"
        stored = self._store.put(name, tensors, {"kind": kind, "epoch": epoch, **state})
        published = PublishedCheckpoint(
            uri=stored.uri, sha256=stored.sha256, epoch=epoch, num_bytes=stored.num_bytes
        )
        self._reporter.published(kind, published)
        return published
