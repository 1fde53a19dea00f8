"""From a trial in the ledger to a bundle: through the executor, as `hpo best` does it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hpo.domain import event as ev
from hpo.domain.attempt import Environment
from hpo.domain.decision import CONTINUE
from hpo.domain.objective import Direction, Objective
from hpo.domain.study import Study
from hpo.domain.trial import CheckpointRef, PlannedTrial, Role, Trial, TrialState
from hpo.execution.executor import Executor, Slot
from hpo.execution.launcher import ForkLauncher, SpawnLauncher
from hpo.execution.processes import ProcessExecutor
from hpo.execution.slots import SlotPool
from hpo.export.bundle import ExportError, open_bundle
from hpo.search.seeds import split_seed, trial_seeds
from hpo.storage.ledger import NewStudy
from hpo.storage.sql_ledger import SqlLedger
from hpo.study import archive
from hpo.study.export import ExportOrder, default_destination, export_trial
from hpo.study.home import Home
from hpo.sweepfile.sweep import parse_sweep
from hpo.training.config import CLASSIFIER_SCHEMA
from hpo.training.data.prepare import prepare_data
from tests.unit.export.models import accuracy_by_readme, contents
from tests.unit.training.trials import SteppingClock, run, small_request
from tracking.checkpoints import FileCheckpointStore

SWEEP = """
study: digits-lr
baseline: {data: digits, model: mlp, epochs: 2, batch_size: 64, width: 4, lr: 3e-3}
vary: {lr: [1e-3, 3e-3]}
"""

AT = "2026-01-02T03:04:05+00:00"
FACTS = {"mean": 0.91, "interval": [0.9, 0.92], "verdict": "not yet distinguishable"}
NUMBER = 0
TOKEN = "t"  # noqa: S105  # an attempt's name


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A home with one study of one COMPLETE trial."""

    home: Home
    ledger: SqlLedger
    executor: Executor

    @property
    def study(self) -> Study:
        return archive.load(self.ledger, archive.find_row(self.ledger, "digits-lr"))

    @property
    def trial(self) -> Trial:
        return self.study.trials[NUMBER]

    def export(self, destination: Path, **changes: Any) -> Path:
        order = ExportOrder(
            study=self.study, trial=self.trial, facts=FACTS, destination=destination
        )
        return export_trial(
            replace(order, **changes),
            home=self.home,
            ledger=self.ledger,
            executor=self.executor,
            clock=SteppingClock(),
        )


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    home = Home(tmp_path_factory.mktemp("home"))
    ledger = SqlLedger(home.ledger_url)
    num_threads = torch.get_num_threads()
    fill(home, ledger)
    torch.set_num_threads(num_threads)
    slots = (Slot(index=0, device="cpu", visible_device=None, num_threads=1),)
    preload = ["hpo.study.worker"]
    launcher = ForkLauncher(preload) if sys.platform == "linux" else SpawnLauncher()
    executor = ProcessExecutor(slots, launcher, SlotPool(slots))
    yield Kept(home=home, ledger=ledger, executor=executor)
    executor.close()
    ledger.close()


def fill(home: Home, ledger: SqlLedger) -> None:
    """Train one trial and put it on record."""
    sweep = parse_sweep(SWEEP, file="digits-lr.yaml", task=CLASSIFIER_SCHEMA)
    ledger.create_study(
        NewStudy(
            uid="1",
            name=sweep.study,
            document=archive.document_of(sweep),
            source=SWEEP,
            directions=(Direction.MINIMIZE,),
            distributions={},
            created_at=AT,
        )
    )
    card = prepare_data(sweep.baseline, home.cache, split_seed(sweep.seed))
    request = replace(
        small_request(home.cache, sweep.baseline, Objective(metric="val_loss")),
        seeds=trial_seeds(sweep.seed, 0),
        split_seed=split_seed(sweep.seed),
    )
    store = FileCheckpointStore(home.root, f"trials/{sweep.study}/{NUMBER}")
    _, reporter = run(request, store)
    best = reporter.newest("best")
    environment = Environment(
        code_digest="c" * 64,
        data_fingerprint=card.fingerprint,
        git_revision="a" * 40,
        git_is_dirty=False,
        versions={"torch": torch.__version__},
        machine={"system": "a test's"},
    )
    plan = PlannedTrial(
        number=NUMBER,
        params={},
        config=dict(sweep.baseline),
        replicate=0,
        role=Role.BASELINE,
    )
    checkpoint = CheckpointRef(
        uri=best.uri, sha256=best.sha256, epoch=best.epoch, num_bytes=best.num_bytes
    )
    selected = sweep.objective.select(reporter.measurements)
    assert selected is not None
    ledger.apply("1", [ev.TrialsPlanned(trials=(plan,))])
    ledger.apply(
        "1",
        [
            ev.AttemptStarted(
                number=NUMBER,
                attempt=1,
                token=TOKEN,
                device="cpu",
                num_threads=1,
                environment=environment,
                at=AT,
            ),
            *(
                ev.Measured(
                    number=NUMBER, token=TOKEN, measurement=measurement, decision=CONTINUE, at=AT
                )
                for measurement in reporter.measurements
            ),
            ev.CheckpointPublished(
                number=NUMBER, token=TOKEN, kind="best", checkpoint=checkpoint, at=AT
            ),
            ev.TrialEnded(
                number=NUMBER,
                token=TOKEN,
                state=TrialState.COMPLETE,
                reason="",
                failure=None,
                value=selected.metrics["val_loss"],
                best_epoch=selected.epoch,
                weights_sha256="0" * 64,
                at=AT,
            ),
        ],
    )


@pytest.fixture(scope="module")
def bundle(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kept.export(tmp_path_factory.mktemp("out") / default_destination("digits-lr"))


def test_the_bundle_gives_the_accuracy_of_the_trials_best_epoch(kept: Kept, bundle: Path) -> None:
    reported = {m.epoch: m.metrics["val_accuracy"] for m in kept.trial.measurements}
    assert kept.trial.best is not None
    assert accuracy_by_readme(bundle) == reported[kept.trial.best.epoch]


def test_the_manifest_leads_back_to_the_trial(kept: Kept, bundle: Path) -> None:
    manifest = open_bundle(bundle).manifest
    trial = kept.trial
    assert trial.best is not None
    assert bundle.name == "digits-lr-best"
    assert manifest["trial"] == "digits-lr/0"
    assert manifest["created_at"] == "1970-01-01T00:00:00+00:00"
    assert manifest["study"] == FACTS
    assert manifest["model"]["config"] == dict(trial.plan.config)
    assert manifest["metrics"]["epoch"] == trial.best.epoch
    lineage = manifest["lineage"]
    assert lineage["config_id"] == trial.plan.config_id
    assert lineage["checkpoint"]["sha256"] == trial.best.sha256
    assert lineage["environment"]["code_digest"] == "c" * 64
    assert lineage["seeds"]["split"] == split_seed(kept.study.sweep.seed)
    assert lineage["study_uid"] == "1"
    assert str(kept.home.root) not in json.dumps(manifest)


def test_exporting_again_replaces_the_bundle_with_an_equal_one(kept: Kept, bundle: Path) -> None:
    before = contents(bundle)
    assert kept.export(bundle) == bundle
    assert contents(bundle) == before


def test_a_damaged_checkpoint_is_refused_and_the_old_bundle_stays(
    kept: Kept, bundle: Path
) -> None:
    assert kept.trial.best is not None
    path = kept.home.root / kept.trial.best.uri
    whole, before = path.read_bytes(), contents(bundle)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    try:
        with pytest.raises(ExportError, match=r"digits-lr/0 is not exported: .* is damaged: its"):
            kept.export(bundle)
    finally:
        path.write_bytes(whole)
    assert contents(bundle) == before


def test_a_checkpoint_that_is_gone_is_named(kept: Kept, tmp_path: Path) -> None:
    assert kept.trial.best is not None
    gone = replace(kept.trial, best=replace(kept.trial.best, uri="trials/none.safetensors"))
    with pytest.raises(ExportError, match=r"checkpoint trials/none\.safetensors is missing"):
        kept.export(tmp_path / "best", trial=gone)
    assert list(tmp_path.iterdir()) == []


def test_a_trial_without_a_checkpoint_is_refused(kept: Kept, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="digits-lr/0 has no checkpoint of its best epoch"):
        kept.export(tmp_path / "best", trial=replace(kept.trial, best=None))


def test_data_that_the_trial_was_not_trained_on_are_refused(kept: Kept, tmp_path: Path) -> None:
    sweep = replace(kept.study.sweep, seed=1)  # another split
    with pytest.raises(ExportError, match="digits is not the data it was trained on"):
        kept.export(tmp_path / "best", study=replace(kept.study, sweep=sweep))
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_folder_is_refused_before_any_work(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ExportError, match=r"it holds thesis\.tex"):
        kept.export(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "thesis.tex"]


def test_ordering_an_export_loads_no_framework() -> None:
    code = (
        "import sys, hpo.study.export;"
        "print([m for m in ('torch', 'numpy', 'onnx', 'onnxruntime') if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"
