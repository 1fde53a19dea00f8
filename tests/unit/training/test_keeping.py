"""What is evaluated is what is saved; chosen epochs are kept, and others begin from them."""

from pathlib import Path

import pytest
import torch

from hpo.domain.objective import At, Objective
from hpo.training.task import BadConfigError, InitialWeights, OutcomeKind
from hpo.training.tasks.classifier import evaluate_checkpoint
from tests.unit.training.trials import RecordingReporter, run, small_request
from tracking.checkpoints import FileCheckpointStore


@pytest.mark.parametrize("kind", ["best", "last"])
def test_averaged_weights_are_evaluated_and_saved(
    cache_dir: Path, store: FileCheckpointStore, kind: str
) -> None:
    objective = Objective(metric="val_loss", at=At.LAST)
    request = small_request(cache_dir, {"ema_decay": 0.9, "ema_start": 1}, objective)
    outcome, told = run(request, store)
    kept = told.newest(kind)
    scores = evaluate_checkpoint(request, store, kept.uri, kept.sha256, "val")
    assert scores["loss"] == told.measurements[-1].metrics["val_loss"]
    raw, _ = run(small_request(cache_dir, objective=objective), store)
    assert outcome.weights_sha256 != raw.weights_sha256


def test_every_nth_epoch_is_kept_with_what_it_scored(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    request = small_request(cache_dir, {"epochs": 5, "keep_every": 2})
    _, told = run(request, store)
    assert [kind for kind, _ in told.checkpoints if kind.startswith("@")] == ["@2", "@4"]
    for epoch in (2, 4):
        kept = told.newest(f"@{epoch}")
        assert kept.epoch == epoch
        scores = evaluate_checkpoint(request, store, kept.uri, kept.sha256, "val")
        assert scores["loss"] == told.measurements[epoch - 1].metrics["val_loss"]
    newest = [told.newest(kind).uri for kind in ("best", "last", "@2", "@4")]
    assert store.list() == sorted(newest)


def test_an_epoch_trained_again_leaves_one_file(
    cache_dir: Path, store: FileCheckpointStore
) -> None:
    request = small_request(cache_dir, {"keep_every": 1})
    store.put("epoch-00003", {"w": torch.zeros(1)}, {"kind": "@3"})  # of an attempt that died
    _, told = run(request, store)
    kept = [uri for uri in store.list() if "epoch-" in uri]
    assert kept == [told.newest(f"@{epoch}").uri for epoch in (1, 2, 3, 4)]


def test_a_trial_begins_from_the_weights_of_another(
    tmp_path: Path, cache_dir: Path, store: FileCheckpointStore
) -> None:
    trained = {"epochs": 8, "keep_every": 4, "lr": 0.03, "augment": 0.0, "dropout": 0.0}
    _, told = run(small_request(cache_dir, trained), store)
    kept = told.newest("@8")
    path = tmp_path / kept.uri
    # a rate that moves nothing shows what training began from
    still = {"lr": 1e-12, "weight_decay": 0.0, "epochs": 1, "warmup_epochs": 0, "dropout": 0.0}
    begun = small_request(cache_dir, {**still, "init_from": str(path), "augment": 0.0})
    _, after = run(begun, FileCheckpointStore(tmp_path / "begun"))
    # batch norm's statistics move on; the weights do not
    assert told.measurements[-1].metrics["val_accuracy"] > 0.8
    assert after.measurements[0].metrics["val_accuracy"] > 0.8
    assert after.measurements[0].metrics["train_accuracy"] > 0.8

    named = {**still, "init_from": "other/3@4"}
    found = InitialWeights(path=str(path), sha256=kept.sha256)
    request = small_request(cache_dir, named, init_from=found)
    outcome, _ = run(request, FileCheckpointStore(tmp_path / "named"))
    assert outcome.kind is OutcomeKind.FINISHED

    changed = InitialWeights(path=str(path), sha256="0" * 64)
    with pytest.raises(BadConfigError, match=r"other/3@4, but .* is not what that trial wrote"):
        run(
            small_request(cache_dir, named, init_from=changed),
            FileCheckpointStore(tmp_path / "changed"),
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("none.safetensors", "init_from is none.safetensors, but there is no file"),
        ("study/3", "init_from is study/3, which was not looked up"),
    ],
)
def test_weights_that_are_not_there_are_a_sentence(
    cache_dir: Path, store: FileCheckpointStore, text: str, message: str
) -> None:
    with pytest.raises(BadConfigError, match=message):
        run(small_request(cache_dir, {"init_from": text}), store)


def test_patience_ends_training_with_a_reason(cache_dir: Path, store: FileCheckpointStore) -> None:
    request = small_request(cache_dir, {"lr": 1e-9, "epochs": 30, "patience": 2, "dropout": 0.0})
    outcome, told = run(request, store)
    assert outcome.kind is OutcomeKind.FINISHED
    assert "val_loss was not better than" in outcome.message
    assert len(told.measurements) < 30
    assert told.newest("last").epoch == len(told.measurements)
    again, told_again = run(request, store, RecordingReporter(), resume=told.newest("last"))
    assert (again.message, told_again.measurements) == (outcome.message, [])
