"""A process that takes slots of two fake devices: FOLDER. Reads words, answers each in a line.

`take` takes a slot, `release` gives the oldest back, `lend` lets a process that outlives this one
inherit the lock of the oldest, as an attempt's process does.
"""

import subprocess
import sys
from pathlib import Path

from hpo.execution.executor import Slot
from hpo.execution.slots import SlotPool


def fake_slots() -> tuple[Slot, ...]:
    """Return slots of two devices that do not exist."""
    return tuple(
        Slot(index=index, device="cuda:0", visible_device=f"GPU-{index}", num_threads=1)
        for index in range(2)
    )


def main(folder: Path) -> None:
    """Obey."""
    pool = SlotPool(fake_slots(), folder)
    held: list[Slot] = []
    for line in sys.stdin:
        match line.strip():
            case "take":
                slot = pool.take()
                if slot is not None:
                    held.append(slot)
                answer = "none" if slot is None else str(slot.visible_device)
            case "release":
                pool.release(held.pop(0))
                answer = "released"
            case _:
                locks = pool.lock_descriptors(held[0])
                assert locks
                attempt = subprocess.Popen(["sleep", "600"], pass_fds=locks, stdout=sys.stderr)
                answer = str(attempt.pid)
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
