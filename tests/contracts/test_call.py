"""`call` runs one function in a process of its own and returns what it returned."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hpo.execution.call import CallFailedError, call
from hpo.execution.executor import Slot
from hpo.execution.launcher import ForkLauncher
from hpo.execution.processes import ProcessExecutor
from hpo.execution.slots import SlotPool

ENTRY_POINTS = "tests.contracts.entry_points"
SLOTS = (Slot(index=0, device="cpu", visible_device=None, num_threads=1),)


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessExecutor]:
    """Return an executor with one slot."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    executor = ProcessExecutor(SLOTS, ForkLauncher([ENTRY_POINTS]), SlotPool(SLOTS))
    yield executor
    executor.close()


def test_a_call_returns_the_result_and_passes_progress_on(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    seen: list[int] = []
    for _ in range(2):  # the slot is free again
        result = call(
            executor,
            f"{ENTRY_POINTS}:train",
            {"epochs": 2},
            tmp_path / "log",
            lambda progress: seen.append(progress.epoch),
        )
        assert result == {"answers": [["continue", ""]] * 2}
    assert seen == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("raise", "ZeroDivisionError: of two"),
        ("bad config", "^batch_size is 0$"),
        ("leave at once", "ended with exit code 7; its output is in .*log"),
    ],
)
def test_a_call_that_fails_says_why(
    executor: ProcessExecutor, tmp_path: Path, how: str, text: str
) -> None:
    with pytest.raises(CallFailedError, match=text):
        call(executor, f"{ENTRY_POINTS}:end_badly", {"how": how}, tmp_path / "log")


def test_a_call_without_a_free_device_is_refused(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    assert executor.take_slot() is not None
    with pytest.raises(CallFailedError, match="no device is free"):
        call(executor, f"{ENTRY_POINTS}:echo", {}, tmp_path / "log")
