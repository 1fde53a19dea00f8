"""Which slots are free, on the whole machine: a GPU serves one attempt of one study at a time."""

import fcntl
import os
import tempfile
from pathlib import Path

from hpo.execution.executor import Slot

LOCK_FOLDER = Path(tempfile.gettempdir()) / "hpo-devices"
"""One for the machine, so that two studies, also of two homes, see each other."""


class SlotPool:
    """Gives out slots and takes them back.

    A GPU's slot is held by an exclusive lock on a file that names the device. The lock belongs to
    the open file, which the attempt's process inherits, so a device stays taken as long as either
    of them lives and is free the moment both are gone.
    """

    def __init__(self, slots: tuple[Slot, ...], lock_folder: Path = LOCK_FOLDER) -> None:
        self._free = list(slots)
        self._lock_folder = lock_folder
        self._locks: dict[int, list[int]] = {}

    def take(self) -> Slot | None:
        """Take a slot, or return None when each is taken here or by another process."""
        for slot in self._free:
            if slot.visible_device is None or self._lock(slot):
                self._free.remove(slot)
                return slot
        return None

    def _lock(self, slot: Slot) -> bool:
        taken: list[int] = []
        for device in (slot.visible_device or "").split(","):
            descriptor = _open_for_all(self._lock_folder / f"{device}.lock")
            taken.append(descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                for opened in taken:
                    os.close(opened)
                return False
        self._locks[slot.index] = taken
        return True

    def lock_descriptors(self, slot: Slot) -> list[int]:
        """Return the open locks of a taken slot's GPUs, for the attempt to inherit."""
        return self._locks.get(slot.index, [])

    def release(self, slot: Slot) -> None:
        """Give a slot back."""
        for descriptor in self._locks.pop(slot.index, []):
            os.close(descriptor)
        self._free.append(slot)
        self._free.sort(key=lambda free: free.index)


def _open_for_all(path: Path) -> int:
    """Open a file that every user of the machine can lock, creating it if need be.

    It is opened for reading, which is enough to lock it; and created only when it is not there,
    since a kernel that protects shared folders refuses to "create" another user's file.
    """
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o1777)  # as the system's own folder for temporary files
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
