"""What is remembered of a preflight, and what its faults are called."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpo.execution.call import CallFailedError, NoSlotError
from hpo.study.home import Home
from hpo.study.preflight import PreflightFailedError, ensure_trains
from tests.fakes.studies import ENVIRONMENT

PASSED = {
    "num_samples": 64,
    "num_epochs": 5,
    "first_loss": 2.3,
    "last_loss": 1.0,
    "seconds": 0.1,
    "remarks": [],
}

REQUEST = {"config": {"model": "mlp", "data": "digits", "lr": 0.1}, "seeds": {}, "device": "cpu"}


class Preflights:
    """Counts the preflights that are run, and answers each alike."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self.home = Home(home)
        self.answer: dict[str, Any] | Exception = PASSED
        self.count = 0
        self.told: list[str] = []
        monkeypatch.setattr("hpo.study.preflight.call", self._call)

    def _call(self, *_: Any) -> dict[str, Any]:
        self.count += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def ask(self, request: Mapping[str, Any] = REQUEST, code: str = "c0de") -> None:
        environment = replace(ENVIRONMENT, code_digest=code)
        executor: Any = None
        ensure_trains(executor, request, environment, self.home, self.told.append)


@pytest.fixture
def preflights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Preflights:
    return Preflights(monkeypatch, tmp_path)


def test_what_passed_is_not_tried_again(preflights: Preflights) -> None:
    preflights.ask()
    preflights.ask()
    assert preflights.count == 1
    assert len(preflights.told) == 1
    assert "loss 2.3 to 1 in 5 updates" in preflights.told[0]


@pytest.mark.parametrize(
    "change", [{"code": "other"}, {"request": {**REQUEST, "config": {"model": "simple_cnn"}}}]
)
def test_other_code_or_another_configuration_is_tried(
    preflights: Preflights, change: dict[str, Any]
) -> None:
    preflights.ask()
    preflights.ask(**change)
    assert preflights.count == 2


@pytest.mark.parametrize(
    "config",
    [{"model": "mine:net"}, {"data": "folder:photos"}, {"pretrained": "weights.pt"}],
)
def test_what_no_digest_covers_is_tried_every_time(
    preflights: Preflights, config: dict[str, Any]
) -> None:
    request = {**REQUEST, "config": {"model": "mlp", "data": "digits", **config}}
    preflights.ask(request)
    preflights.ask(request)
    assert preflights.count == 2


def test_a_fault_is_not_remembered_and_is_told_with_its_layers(preflights: Preflights) -> None:
    preflights.answer = {
        "fault": "the loss does not fall",
        "details": ["head Linear: 1x3 -> fails"],
    }
    for _ in range(2):
        with pytest.raises(PreflightFailedError) as caught:
            preflights.ask()
        assert caught.value.exit_code == 2
        for part in ("the loss does not fall", "1x3 -> fails", "--no-preflight"):
            assert part in str(caught.value)
    assert preflights.count == 2
    assert preflights.told == []


def test_a_process_that_dies_is_a_fault_and_a_taken_device_is_not(preflights: Preflights) -> None:
    preflights.answer = CallFailedError("the process ended with exit code -9")
    with pytest.raises(PreflightFailedError, match="exit code -9"):
        preflights.ask()
    preflights.answer = NoSlotError("no device is free")
    with pytest.raises(NoSlotError):
        preflights.ask()


def test_a_remark_is_told_and_stops_nothing(preflights: Preflights) -> None:
    preflights.answer = {**PASSED, "remarks": ["the loss was 5 before the first update"]}
    preflights.ask()
    assert preflights.told[0] == "warning: preflight: the loss was 5 before the first update"
