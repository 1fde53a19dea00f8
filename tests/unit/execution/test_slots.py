"""A GPU serves one attempt of one study at a time, on the whole machine."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpo.execution.executor import Slot
from hpo.execution.slots import SlotPool
from tests.fakes.processes import alive_after
from tests.unit.execution.slot_holder import fake_slots

ROOT = Path(__file__).parents[3]


class Holder:
    """Another process with a pool of the same two devices."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.execution.slot_holder", str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, word: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        with self._process:
            self._process.kill()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    """Return another process that takes slots."""
    holder = Holder(tmp_path / "locks")
    yield holder
    holder.kill()


@pytest.fixture
def pool(tmp_path: Path) -> SlotPool:
    """Return this process's pool."""
    return SlotPool(fake_slots(), tmp_path / "locks")


def taken(pool: SlotPool, num: int) -> list[Slot]:
    slots = [pool.take() for _ in range(num)]
    return [slot for slot in slots if slot is not None]


def release_all(pool: SlotPool, slots: list[Slot]) -> None:
    for slot in slots:
        pool.release(slot)


def test_two_processes_never_hold_one_device(pool: SlotPool, holder: Holder) -> None:
    assert holder.ask("take") == "GPU-0"
    ours = taken(pool, 3)
    assert [slot.visible_device for slot in ours] == ["GPU-1"]
    assert holder.ask("take") == "none"
    release_all(pool, ours)
    assert holder.ask("take") == "GPU-1"
    assert taken(pool, 1) == []
    assert holder.ask("release") == "released"
    ours = taken(pool, 2)
    assert [slot.visible_device for slot in ours] == ["GPU-0"]
    release_all(pool, ours)


def test_a_killed_holder_frees_its_devices(pool: SlotPool, holder: Holder) -> None:
    assert (holder.ask("take"), holder.ask("take")) == ("GPU-0", "GPU-1")
    assert taken(pool, 1) == []
    holder.kill()
    ours = taken(pool, 3)
    assert len(ours) == 2
    release_all(pool, ours)


def test_an_attempt_that_outlives_its_conductor_keeps_its_device(
    pool: SlotPool, holder: Holder
) -> None:
    assert holder.ask("take") == "GPU-0"
    attempt = int(holder.ask("lend"))
    try:
        holder.kill()
        ours = taken(pool, 2)
        assert [slot.visible_device for slot in ours] == ["GPU-1"]
    finally:
        os.kill(attempt, signal.SIGKILL)
    assert alive_after([attempt], 10.0) == []
    ours += taken(pool, 1)
    assert [slot.visible_device for slot in ours] == ["GPU-1", "GPU-0"]
    release_all(pool, ours)


def test_a_slot_of_several_gpus_takes_all_of_them_or_none(tmp_path: Path) -> None:
    def pool_of(devices: str) -> SlotPool:
        slot = Slot(index=0, device="cuda:0", visible_device=devices, num_threads=1)
        return SlotPool((slot,), tmp_path / "locks")

    second, both, first = pool_of("GPU-1"), pool_of("GPU-0,GPU-1"), pool_of("GPU-0")
    (held,) = taken(second, 1)
    assert both.take() is None
    ours = taken(first, 1)  # what could not be taken whole is free
    release_all(first, ours)
    second.release(held)
    (pair,) = taken(both, 1)
    assert len(both.lock_descriptors(pair)) == 2
    assert first.take() is None
    both.release(pair)
    release_all(first, taken(first, 1))


def test_slots_without_a_gpu_need_no_lock(tmp_path: Path) -> None:
    slots = tuple(
        Slot(index=index, device="cpu", visible_device=None, num_threads=1) for index in range(2)
    )
    pool = SlotPool(slots, tmp_path / "locks")
    assert taken(pool, 3) == list(slots)
    assert pool.lock_descriptors(slots[0]) == []
    pool.release(slots[1])
    pool.release(slots[0])
    assert taken(pool, 3) == list(slots)
    assert not (tmp_path / "locks").exists()


def test_every_user_of_the_machine_can_lock_a_device(tmp_path: Path, pool: SlotPool) -> None:
    release_all(pool, taken(pool, 2))
    folder = tmp_path / "locks"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    (folder / "GPU-0.lock").chmod(0o444)  # as another user finds it
    ours = taken(pool, 2)
    assert [slot.visible_device for slot in ours] == ["GPU-0", "GPU-1"]
    release_all(pool, ours)
