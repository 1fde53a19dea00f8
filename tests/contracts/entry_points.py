"""What jobs run in the tests of executors. Imports nothing slow."""

import os
import signal
import subprocess
import sys
from typing import Any

from hpo.domain.trial import FailureKind, Measurement
from hpo.execution.channel import Channel
from hpo.execution.entry_point import FailedTrialError
from hpo.execution.message import Progress, Report, Started


def report(epoch: int, value: float = 0.5) -> Report:
    return Report(
        measurement=Measurement(epoch=epoch, examples_seen=epoch, metrics={"val_loss": value})
    )


def train(payload: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Tell of a start, and of each epoch twice; return every answer."""
    channel.tell(Started(resumed_epoch=0))
    answers = []
    for epoch in range(1, payload["epochs"] + 1):
        channel.tell(Progress(epoch=epoch, fraction=0.5))
        decision = channel.ask(report(epoch))
        answers.append([decision.action.value, decision.reason])
        if not decision.is_continue:
            break
    return {"answers": answers}


def echo(payload: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Return the payload, and what the process sees of its surroundings."""
    return {
        "payload": payload,
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "is_group_leader": os.getpgrp() == os.getpid(),
        "stdin": sys.stdin.read(),
    }


class OutOfMemoryError(RuntimeError):
    """As torch names its own."""


def end_badly(payload: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """End in the way named."""
    print("said before the end")  # noqa: T201  # into the log
    match payload["how"]:
        case "abort":
            os.abort()
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave at once":
            os._exit(7)
        case how:
            if how in RAISED:
                raise RAISED[how]
    return {"no json": object()}


RAISED: dict[str, BaseException] = {
    "exit 3": SystemExit(3),
    "exit": SystemExit(),
    "exit with words": SystemExit("words"),
    "raise": ZeroDivisionError("of two\nlines"),
    "out of memory": MemoryError(),
    "out of device memory": OutOfMemoryError("tried to allocate 2 GiB"),
    "bad config": FailedTrialError(FailureKind.BAD_CONFIG, "batch_size is 0"),
}


def wait_for_ever(payload: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Tell the process's ID and its child's, then wait; what is answered is not heard."""
    child = subprocess.Popen(["sleep", "600"])
    channel.tell(Progress(epoch=os.getpid(), fraction=0.0))
    channel.tell(Progress(epoch=child.pid, fraction=1.0))
    child.wait()
    return {}


def leave_a_child(payload: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Return, but leave a child that holds the channel open."""
    child = os.fork()
    if child == 0:
        signal.pause()
    return {"child": child}


def fill_the_log(payload: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Print much, on both streams and from a child."""
    line = "x" * 1023 + "\n"
    for _ in range(payload["num_kib"] // 2):
        sys.stdout.write(line)
        sys.stderr.write(line)
    subprocess.run(["echo", "from a child"], check=True)
    return {}


def multiply_on_two_threads(payload: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Use torch on two threads; hangs in a child of a process that had a thread pool."""
    import torch

    torch.set_num_threads(2)
    product = torch.ones(700, 700) @ torch.ones(700, 700)
    return {"threads": torch.get_num_threads(), "sum": float(product.sum())}
