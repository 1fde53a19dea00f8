"""Running a job's entry point in the process that was made for it."""

import faulthandler
import importlib
import io
import json
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

from hpo.domain.trial import FailureKind
from hpo.execution.channel import Channel, ChannelClosedError, SocketChannel
from hpo.execution.message import AttemptKey, Failed, Finished

EntryPoint = Callable[[dict[str, Any], Channel], dict[str, Any]]
"""Takes the payload and the channel, returns a plain JSON result."""

CONDUCTOR_GONE = 75
"""Exit code of a process whose conductor is gone (EX_TEMPFAIL)."""


class FailedTrialError(Exception):
    """An entry point's way to end its trial with a named kind of failure."""

    def __init__(self, failure: FailureKind, text: str) -> None:
        super().__init__(text)
        self.failure = failure


def resolve(entry_point: str) -> EntryPoint:
    """Import `package.module:function`."""
    module, _, name = entry_point.partition(":")
    function: EntryPoint = getattr(importlib.import_module(module), name)
    return function


def run_entry_point(request: dict[str, Any], connection: socket.socket) -> int:
    """Run a job to its end and return the process's exit code.

    Args:
        request: `key`, `entry_point` and `payload`.
        connection: the attempt's end of the channel.
    """
    _log_at_once()
    channel = SocketChannel(connection, AttemptKey(**request["key"]))
    try:
        channel.tell(_outcome(request, channel))
    except ChannelClosedError:
        return CONDUCTOR_GONE
    return 0


def _log_at_once() -> None:
    """Make what is printed before a crash, and where the crash was, reach the log."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    faulthandler.enable()


def _outcome(request: dict[str, Any], channel: Channel) -> Finished | Failed:
    try:
        result = resolve(request["entry_point"])(request["payload"], channel)
        json.dumps(result)  # what is not JSON is the entry point's bug, not ours
        return Finished(result=result)
    except ChannelClosedError:
        raise
    except FailedTrialError as error:
        return Failed(failure=error.failure, text=str(error))
    except MemoryError:
        return Failed(failure=FailureKind.OOM, text="out of memory", traceback=_traceback())
    except Exception as error:  # noqa: BLE001  # whatever the training raises fails this trial alone
        name = type(error).__name__
        failure = FailureKind.OOM if name == "OutOfMemoryError" else FailureKind.BUG
        text = f"{name}: {error}".splitlines()[0][:500]
        return Failed(failure=failure, text=text, traceback=_traceback())


def _traceback() -> str:
    text = traceback.format_exc()
    sys.stderr.write(text)
    return text[-8000:]  # the end names the line that raised
