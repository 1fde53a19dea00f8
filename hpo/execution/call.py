"""Running one function in a fresh process and waiting for its result."""

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hpo.domain.decision import CONTINUE
from hpo.errors import HpoError
from hpo.execution.executor import Executor, Job, JobEnded
from hpo.execution.message import AttemptKey, Failed, Finished, Message, Progress

_count = itertools.count(1)


class CallFailedError(HpoError):
    """The called function raised; the message is its own."""


class NoSlotError(CallFailedError):
    """Every slot is taken, here or by another process."""


def call(
    executor: Executor,
    entry_point: str,
    payload: Mapping[str, Any],
    log_path: Path,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> dict[str, Any]:
    """Run an entry point in a slot of its own and return its result.

    The executor must be idle: while a call runs, nothing else is collected.

    Raises:
        NoSlotError: no slot is free.
        CallFailedError: the function raised, or its process died.
    """
    slot = executor.take_slot()
    if slot is None:
        raise NoSlotError("no device is free; wait for the other study, or name another device")
    key = AttemptKey(trial=-1, attempt=1, token=f"call-{next(_count)}")
    executor.submit(
        Job(attempts=(key,), entry_point=entry_point, payload=payload, log_path=log_path), slot
    )
    outcome: Finished | Failed | None = None
    while True:
        for arrival in executor.poll(1.0):
            match arrival:
                case JobEnded():
                    return _result(outcome, arrival, log_path)
                case Message(body=Finished() | Failed() as body):
                    outcome = body
                case Message(body=Progress() as body):
                    on_progress(body)
                case Message():
                    executor.answer(arrival, CONTINUE)


def _result(outcome: Finished | Failed | None, ended: JobEnded, log_path: Path) -> dict[str, Any]:
    match outcome:
        case Finished():
            return outcome.result
        case Failed():
            raise CallFailedError(outcome.text)
        case None:
            raise CallFailedError(
                f"the process ended with exit code {ended.exit_code}; its output is in {log_path}"
            )
