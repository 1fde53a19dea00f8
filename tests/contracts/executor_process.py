"""A process that runs two jobs until it is killed: LAUNCHER FOLDER.

Prints the IDs of its processes, then waits for a line, ends the jobs and prints what ended.
"""

import os
import signal
import sys
import tempfile
from pathlib import Path

from hpo.execution.executor import Job, JobEnded, Slot
from hpo.execution.launcher import ForkLauncher, Launcher, SpawnLauncher
from hpo.execution.message import AttemptKey, Message, Progress
from hpo.execution.processes import ProcessExecutor
from hpo.execution.slots import SlotPool

ENTRY_POINTS = "tests.contracts.entry_points"


def main(launcher: Launcher, folder: Path) -> None:
    """Run it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a conductor counts it; it does not die of it
    slots = tuple(
        Slot(index=index, device="cpu", visible_device=f"fake-{index}", num_threads=1)
        for index in range(2)
    )
    executor = ProcessExecutor(slots, launcher, SlotPool(slots, folder / "locks"))
    for number in range(2):
        slot = executor.take_slot()
        assert slot is not None
        job = Job(
            attempts=(AttemptKey(trial=number, attempt=1, token=str(number)),),
            entry_point=f"{ENTRY_POINTS}:wait_for_ever",
            payload={},
            log_path=folder / f"{number}.log",
        )
        executor.submit(job, slot)
    pids: list[int] = []
    while len(pids) < 4:
        pids += [
            arrival.body.epoch
            for arrival in executor.poll(1.0)
            if isinstance(arrival, Message) and isinstance(arrival.body, Progress)
        ]
    say(*pids)
    sys.stdin.readline()
    ends: list[JobEnded] = []
    for number in range(2):
        executor.kill(AttemptKey(trial=number, attempt=1, token=str(number)))
    while len(ends) < 2:
        ends += [arrival for arrival in executor.poll(1.0) if isinstance(arrival, JobEnded)]
    executor.close()
    say(*(ended.exit_code for ended in ends))


def say(*words: object) -> None:
    """Print a line at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())
    main(
        ForkLauncher([ENTRY_POINTS]) if sys.argv[1] == "fork" else SpawnLauncher(),
        Path(sys.argv[2]),
    )
