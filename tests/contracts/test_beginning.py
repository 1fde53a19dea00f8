"""`init_from: study/number@epoch` is looked up where the conductor recorded it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hpo.errors import NotFoundError
from hpo.storage.sql_ledger import SqlLedger
from hpo.study.beginning import beginning_of, check_beginnings, devices_per_trial
from hpo.study.home import Home
from hpo.sweepfile.dump import dump_sweep
from hpo.sweepfile.sweep import parse_sweep
from hpo.training.config import CLASSIFIER_SCHEMA
from tests.fakes import studies as s

if TYPE_CHECKING:
    from hpo.domain.event import StudyEvent

BASE = "study: lr-digits\nbaseline: {data: digits, epochs: 9}\nvary: {lr: [1e-3, 1e-2]}\n"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Return a home with a study whose first trial kept epoch 2 and has its best in epoch 5."""
    kept = Home(tmp_path)
    ledger = SqlLedger(kept.ledger_url)
    document = json.dumps(dump_sweep(parse_sweep(BASE, file="x.yaml", task=CLASSIFIER_SCHEMA)))
    ledger.create_study(replace(s.new_study(), document=document))
    events: list[StudyEvent] = [
        s.plan([0, 1]),
        s.started(0, "a"),
        s.published(0, "a", 2, "@2"),
        s.published(0, "a", 5, "best"),
    ]
    ledger.apply(s.UID, events)
    yield kept
    ledger.close()


@pytest.mark.parametrize(
    ("text", "epoch", "kind"),
    [
        ("lr-digits/0", 5, "best"),
        ("lr-digits/0@2", 2, "@2"),
        ("lr-digits/0@5", 5, "best"),
    ],
)
def test_a_kept_epoch_is_a_file_with_its_hash(
    home: Home, text: str, epoch: int, kind: str
) -> None:
    expected = s.checkpoint(epoch, kind)
    found = beginning_of({"init_from": text}, home)
    assert found == {"path": str(home.root / expected.uri), "sha256": expected.sha256}


@pytest.mark.parametrize("text", ["none", "weights.safetensors"])
def test_new_weights_and_files_are_not_looked_up(tmp_path: Path, text: str) -> None:
    assert beginning_of({"init_from": text}, Home(tmp_path / "nothing")) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr-digits/0@3", "has no checkpoint of epoch 3, which keep_every did not keep"),
        ("lr-digits/1", "has no checkpoint of a best epoch"),
        ("lr-digits/7", "has no trial 7"),
        ("lr-digit/0", "no study is named lr-digit; there are: lr-digits"),
    ],
)
def test_what_is_not_there_is_a_sentence(home: Home, text: str, message: str) -> None:
    varied = f"{BASE[:-2]}, init_from: [{text}, none]}}\n"
    sweep = parse_sweep(varied, file="x.yaml", task=CLASSIFIER_SCHEMA)
    ledger = SqlLedger(home.ledger_url)
    try:
        with pytest.raises(NotFoundError, match=message):
            check_beginnings(sweep, ledger)
    finally:
        ledger.close()


def test_slots_are_as_large_as_the_largest_trial() -> None:
    sweep = parse_sweep(
        BASE.replace("lr: [1e-3, 1e-2]", "devices_per_trial: [1, 4, 2]"),
        file="x.yaml",
        task=CLASSIFIER_SCHEMA,
    )
    assert devices_per_trial(sweep) == 4
