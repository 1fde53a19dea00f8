"""How fast the engine trains, side by side with what one would write by hand.

    python benchmarks/engine.py                # about four minutes; writes benchmarks/results/
    python benchmarks/engine.py --repeats 3    # faster and rougher

Every claim is a ratio of two medians measured in turn in this one process, so that a busy machine
slows both. Images are random numbers of the sizes named; no data set is needed.

resident   one epoch of `hpo.training.epoch` against a loop of ten lines on the same tensors with
           the same model and optimizer
loader     the same epoch, augmented, against DataLoader(2 workers) with PIL transforms
overhead   the share of an epoch that reporting and checkpoints take
lightning  the resident epoch against Lightning's trainer, where that is installed
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import transforms

from hpo.clock import SystemClock
from hpo.domain.decision import CONTINUE, Decision
from hpo.domain.objective import Objective
from hpo.domain.trial import Measurement
from hpo.training.config import CLASSIFIER_SCHEMA, ClassifierConfig
from hpo.training.data.card import DataCard
from hpo.training.data.dataset import Dataset as Data
from hpo.training.data.resident import Split
from hpo.training.determinism import STREAM_NAMES, RandomStreams, configure_threads
from hpo.training.epoch import train_epoch
from hpo.training.keeper import CheckpointKeeper
from hpo.training.loop import train
from hpo.training.models.classifier import build_model
from hpo.training.optimizers import build_optimizer
from hpo.training.task import PublishedCheckpoint, TrialRequest
from hpo.training.tasks.assembly import assemble
from tracking.checkpoints import FileCheckpointStore

if TYPE_CHECKING:
    from hpo.training.trainee import Trainee

RESULTS = Path(__file__).parent / "results" / "engine.json"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What is trained on."""

    side: int
    num_images: int
    batch_size: int
    width: int
    depth: int = 0

    def __str__(self) -> str:
        return f"{self.side} px, batch {self.batch_size}, width {self.width}"


SMALL = Shape(side=8, num_images=1257, batch_size=64, width=32)
"""Digits, as the shipped sweeps train them."""
LARGE = Shape(side=28, num_images=1024, batch_size=64, width=32)
"""A part of MNIST."""
LOADED = (
    (Shape(side=28, num_images=4096, batch_size=256, width=4, depth=1), ">= 2.5"),
    (Shape(side=8, num_images=4096, batch_size=256, width=4, depth=1), ">= 8"),
)
"""Small networks, for which the way to the images decides; with what the ratio should be."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One claim."""

    name: str
    ratio: float | None
    """How many times as fast as the peer; for an overhead, its share. None: not measured."""
    target: str
    ours_s: float | None = None
    peer_s: float | None = None
    core_ratio: float | None = None
    """The same in seconds of all cores that either keeps busy, workers included."""
    note: str = ""


class Silent:
    """A reporter that hears everything and goes on."""

    def progress(self, epoch: int, fraction: float) -> None:
        """Drop it."""

    def report(self, measurement: Measurement) -> Decision:
        """Go on."""
        del measurement
        return CONTINUE

    def published(self, kind: str, checkpoint: PublishedCheckpoint) -> None:
        """Drop it."""


def data_of(shape: Shape) -> Data:
    """Return random images."""
    generator = torch.Generator()
    generator.set_state(RandomStreams(dict.fromkeys(STREAM_NAMES, 0)).init.get_state())

    def split(num_images: int) -> Split:
        size = (num_images, 1, shape.side, shape.side)
        images = torch.randint(256, size, dtype=torch.uint8, generator=generator)
        return Split(
            images_NCHW=images, labels_N=torch.randint(10, (num_images,), generator=generator)
        )

    splits = {"train": split(shape.num_images), "val": split(256), "test": split(256)}
    card = DataCard(
        name="digits",
        fingerprint="",
        num_train=shape.num_images,
        num_val=256,
        num_test=256,
        num_classes=10,
        class_labels=tuple("0123456789"),
        image_shape=(1, shape.side, shape.side),
        pixel_scale=255.0,
        mean=(0.5,),
        std=(0.29,),
    )
    return Data(card=card, splits=splits)


def request_of(shape: Shape, **changes: Any) -> TrialRequest:
    """Return what the engine is asked for."""
    config = {"data": "digits", "batch_size": shape.batch_size, "width": shape.width}
    return TrialRequest(
        config=CLASSIFIER_SCHEMA.complete(
            {"epochs": 1000, "depth": shape.depth, **config, **changes}
        ),
        seeds=dict.fromkeys(STREAM_NAMES, 0),
        split_seed=0,
        objective=Objective(metric="val_loss"),
        device="cpu",
        num_threads=1,
        cache_dir=Path("unused"),
    )


def engine_epoch(shape: Shape, **changes: Any) -> Callable[[], None]:
    """Return one epoch of ours, to be called again and again."""
    trainee = assemble(request_of(shape, **changes), data_of(shape), is_restored=False)
    reporter, clock = Silent(), SystemClock()
    return lambda: void(train_epoch(trainee, 1, reporter, clock))


def void(_result: object) -> None:
    """Drop a result."""


def fresh_model(shape: Shape) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the very model and optimizer that the engine trains."""
    config = ClassifierConfig.parse(request_of(shape).config)
    streams = RandomStreams(dict.fromkeys(STREAM_NAMES, 0))
    model = build_model(config, data_of(shape).card, streams)
    return model, build_optimizer(config, model.parameter_groups())


def hand_written_epoch(shape: Shape) -> Callable[[], None]:
    """Return one epoch of the loop that one would write by hand for tensors in memory."""
    model, optimizer = fresh_model(shape)
    train_split = data_of(shape)["train"]
    images, labels = train_split.images_NCHW, train_split.labels_N
    generator = torch.Generator()

    def epoch() -> None:
        model.train()
        order = torch.randperm(len(labels), generator=generator)
        total = 0.0
        for start in range(0, len(labels), shape.batch_size):
            indices = order[start : start + shape.batch_size]
            loss = functional.cross_entropy(model(images[indices]), labels[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(indices)

    return epoch


class PilImages(Dataset[tuple[Tensor, int]]):
    """Images as most tutorials read them: one by one through PIL."""

    def __init__(self, split: Any) -> None:
        self._images = split.images_NCHW.squeeze(1).numpy()
        self._labels = split.labels_N.tolist()
        self._transform = transforms.Compose(
            [
                transforms.RandomAffine(15, translate=(0.125, 0.125), scale=(0.85, 1.15)),
                transforms.ToTensor(),
                transforms.Normalize((0.5,), (0.29,)),
            ]
        )

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self._transform(Image.fromarray(self._images[index])), self._labels[index]


def loader_epoch(shape: Shape) -> Callable[[], None]:
    """Return one epoch of the usual loop over a DataLoader of two workers."""
    model, optimizer = fresh_model(shape)
    network = model.get_submodule("network")  # the transforms normalise
    loader = DataLoader(
        PilImages(data_of(shape)["train"]),
        batch_size=shape.batch_size,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
    )

    def epoch() -> None:
        network.train()
        total = 0.0
        for images, labels in loader:
            loss = functional.cross_entropy(network(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)

    return epoch


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds of calls in turn."""

    ours: list[float]
    peer: list[float]


def cpu_s() -> float:
    """Return the processor time of this process and its workers so far."""
    process = psutil.Process()
    times = [process.cpu_times(), *(child.cpu_times() for child in process.children())]
    return sum(each.user + each.system for each in times)


def in_turn(
    ours: Callable[[], None], peer: Callable[[], None], repeats: int
) -> tuple[Times, Times]:
    """Call both alternately, after one untimed call each; return wall and processor times."""
    wall, cpu = Times(ours=[], peer=[]), Times(ours=[], peer=[])
    ours()
    peer()
    for _ in range(repeats):
        for call, walls, cpus in ((ours, wall.ours, cpu.ours), (peer, wall.peer, cpu.peer)):
            started_s, cpu_started_s = time.perf_counter(), cpu_s()
            call()
            walls.append(time.perf_counter() - started_s)
            cpus.append(cpu_s() - cpu_started_s)
    return wall, cpu


def ratio(times: Times) -> float:
    """Return the median over pairs of the peer's time over ours."""
    return statistics.median(b / max(a, 1e-9) for a, b in zip(times.ours, times.peer, strict=True))


def compared(name: str, target: str, times: tuple[Times, Times]) -> Row:
    """Return a claim."""
    wall, cpu = times
    return Row(
        name=name,
        ratio=ratio(wall),
        target=target,
        ours_s=statistics.median(wall.ours),
        peer_s=statistics.median(wall.peer),
        core_ratio=ratio(cpu),
    )


class Stopwatch:
    """Adds up the time that methods of other things take."""

    def __init__(self) -> None:
        self.total_s = 0.0

    def around(self, thing: Any, *names: str) -> Any:
        """Time these methods of a thing from now on; return the thing."""
        for name in names:
            setattr(thing, name, self._timed(getattr(thing, name)))
        return thing

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            started_s = time.perf_counter()
            try:
                return method(*arguments, **named)
            finally:
                self.total_s += time.perf_counter() - started_s

        return timed


def overhead(epoch_s: float, num_epochs: int) -> float:
    """Return the share of training time that reporting and checkpoints take.

    Args:
        epoch_s: about how long an epoch shall be.
        num_epochs: to train.
    """
    calibrating = engine_epoch(SMALL)
    calibrating()
    started_s = time.perf_counter()
    calibrating()
    factor = epoch_s / (time.perf_counter() - started_s)
    shape = Shape(**(asdict(SMALL) | {"num_images": round(SMALL.num_images * factor)}))
    trainee: Trainee = assemble(
        request_of(shape, epochs=num_epochs), data_of(shape), is_restored=False
    )
    watch, reporter = Stopwatch(), Silent()
    with tempfile.TemporaryDirectory() as folder:
        store = FileCheckpointStore(Path(folder))
        keeper = CheckpointKeeper(
            store, reporter, SystemClock(), trainee.state, Objective(metric="val_loss")
        )
        watch.around(keeper, "consider", "keep")
        watch.around(reporter, "report", "progress")
        started_s = time.perf_counter()
        train(trainee, keeper, reporter, SystemClock(), None)
        return watch.total_s / (time.perf_counter() - started_s)


def lightning_row(repeats: int) -> Row:
    """Compare with Lightning's trainer on the same tensors, where it is installed."""
    target = "peer"
    name = next(
        (n for n in ("lightning.pytorch", "pytorch_lightning")
         if importlib.util.find_spec(n.partition(".")[0])), None)  # fmt: skip
    if name is None:
        return Row(name="Lightning", ratio=None, target=target, note="not installed; not measured")
    pl: Any = importlib.import_module(name)
    model, optimizer = fresh_model(LARGE)
    train_split = data_of(LARGE)["train"]

    class Module(pl.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: tuple[Tensor, Tensor], _index: int) -> Tensor:
            return functional.cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return optimizer

    loader = DataLoader(
        TensorDataset(train_split.images_NCHW, train_split.labels_N),
        batch_size=LARGE.batch_size,
        shuffle=True,
    )
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
             "enable_model_summary": False, "accelerator": "cpu"}  # fmt: skip

    def epoch() -> None:
        pl.Trainer(max_epochs=1, **quiet).fit(Module(), loader)

    return compared("Lightning", target, in_turn(engine_epoch(LARGE), epoch, repeats))


def measure(repeats: int) -> list[Row]:
    """Measure every claim."""
    rows = [
        compared(
            f"resident loop by hand, {shape}",
            ">= 0.97",
            in_turn(engine_epoch(shape), hand_written_epoch(shape), repeats),
        )
        for shape in (SMALL, LARGE)
    ]
    rows += [
        compared(
            f"DataLoader(2) + PIL, {shape}",
            target,
            in_turn(engine_epoch(shape, augment=1.0), loader_epoch(shape), max(3, repeats // 2)),
        )
        for shape, target in LOADED
    ]
    for epoch_s, num_epochs, target in ((0.1, 60, "<= 0.03"), (1.0, 12, "<= 0.01")):
        rows.append(
            Row(
                name=f"reporting and checkpoints at {epoch_s:g} s epochs",
                ratio=overhead(epoch_s, num_epochs),
                target=target,
            )
        )
    return [*rows, lightning_row(max(3, repeats // 2))]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15, help="pairs of epochs in turn")
    repeats = parser.parse_args().repeats
    configure_threads(1)
    load_before = os.getloadavg()[0]
    rows = measure(repeats)
    for row in rows:
        shown = "-" if row.ratio is None else f"{row.ratio:.3g}"
        cores = "" if row.core_ratio is None else f"by core {row.core_ratio:.3g}"
        print(f"{row.name:52} {shown:>8}  {row.target:8} {cores:16} {row.note}")
    document = {
        "benchmark": "engine",
        "machine": {
            "cores": os.cpu_count(),
            "processor": platform.machine(),
            "load_before": load_before,
            "load_after": os.getloadavg()[0],
            "threads": torch.get_num_threads(),
        },
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "repeats": repeats,
        "rows": [asdict(row) for row in rows],
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
