"""Starting a fresh process for a job: forked from a warm server, or spawned where it must be."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from hpo.errors import HpoError
from hpo.execution.channel import LineBuffer
from hpo.execution.executor import Job

MAX_REQUEST_BYTES = 64 << 10
"""A job is small plain data; what is large is named by a path. Fits an environment variable."""

START_TIMEOUT_S = 120.0
"""For importing torch on a cold disk."""


class ServerGoneError(HpoError):
    """No further process can be started."""


class Launcher(Protocol):
    """Starts processes and tells when they ended.

    1. Each process leads its own process group, whose ID is the process's.
    2. Every started process is reported by `ended` once.
    """

    def start(self, job: Job, environment: Mapping[str, str], descriptors: Sequence[int]) -> int:
        """Start a process and return its ID.

        Args:
            job: what to run.
            environment: variables to set in it.
            descriptors: the job's end of the channel, its log, and what else it shall hold open.
        """
        ...

    def ended(self) -> list[tuple[int, int]]:
        """Return process IDs and exit codes of processes that ended since the last call."""
        ...

    @property
    def descriptor(self) -> int | None:
        """What becomes readable when a process ended; None when `ended` must be asked."""
        ...

    def close(self) -> None:
        """End every process."""
        ...


def _request(job: Job, environment: Mapping[str, str]) -> str:
    request = json.dumps(
        {
            "key": asdict(job.attempts[0]),
            "entry_point": job.entry_point,
            "payload": dict(job.payload),
            "environment": dict(environment),
        }
    )
    if len(request) > MAX_REQUEST_BYTES:
        raise ValueError(f"a job of {len(request)} bytes; name large data by its path")
    return request


class ForkLauncher:
    """Forks from a warm server, so that no job waits for imports."""

    def __init__(self, preload: Sequence[str]) -> None:
        self._connection, theirs = socket.socketpair()
        command = [
            *(sys.executable, "-m", "hpo.execution.warm_server"),
            *(str(theirs.fileno()), *preload),
        ]
        self._process = subprocess.Popen(  # noqa: S603  # our own module
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # One thread until each job sets its own number: a library that opens a thread pool
            # when it is imported would make every fork unsafe.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        )
        theirs.close()
        self._buffer = LineBuffer()
        self._ended: list[tuple[int, int]] = []
        self._is_ready = False

    @property
    def descriptor(self) -> int | None:
        """What becomes readable when a process ended."""
        return self._connection.fileno()

    def start(self, job: Job, environment: Mapping[str, str], descriptors: Sequence[int]) -> int:
        """Fork a process and return its ID."""
        request = f"{_request(job, environment)}\n".encode()
        if not self._is_ready:
            self._wait_for("ready")
            self._is_ready = True
        try:
            num_sent = socket.send_fds(self._connection, [request], list(descriptors))
            self._connection.sendall(request[num_sent:])
        except OSError as error:
            raise self._death() from error
        return int(self._wait_for("pid"))

    def _wait_for(self, key: str) -> Any:
        """Read the server's lines until one has `key`, keeping what else they tell."""
        while True:
            readable, _, _ = select.select([self._connection.fileno()], [], [], START_TIMEOUT_S)
            if not readable:
                raise ServerGoneError(
                    f"the process that starts trials did not answer in {START_TIMEOUT_S:g} s; is"
                    " the machine overloaded? Run the command again to go on"
                )
            for document in self._read():
                if key in document:
                    return document[key]

    def _read(self) -> list[dict[str, Any]]:
        data = self._connection.recv(1 << 16)
        if not data:
            raise self._death()
        documents = [json.loads(line) for line in self._buffer.feed(data)]
        self._ended += [(d["ended"], d["exit_code"]) for d in documents if "ended" in d]
        return documents

    def _death(self) -> "ServerGoneError":
        exit_code = self._process.wait()
        if exit_code < 0:
            end = f"was killed by {signal.Signals(-exit_code).name}; is there enough memory?"
        else:
            end = f"ended with exit code {exit_code}; its last words are above."
        return ServerGoneError(
            f"the process that starts trials {end} Run the command again to go on"
        )

    def ended(self) -> list[tuple[int, int]]:
        """Return process IDs and exit codes of processes that ended since the last call."""
        while select.select([self._connection.fileno()], [], [], 0)[0]:
            self._read()
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """End the server and every process of it."""
        self._connection.close()
        self._process.wait()


class SpawnLauncher:
    """Starts a new Python for each job: slower, for systems where forking is unsafe (macOS)."""

    descriptor: int | None = None

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, job: Job, environment: Mapping[str, str], descriptors: Sequence[int]) -> int:
        """Start a process and return its ID."""
        channel, log = descriptors[:2]
        request = _request(job, environment)
        process = subprocess.Popen(  # noqa: S603  # our own module
            [sys.executable, "-m", "hpo.execution.spawned", str(channel), str(os.getpid())],
            pass_fds=[channel, *descriptors[2:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **environment, "HPO_JOB": request},
        )
        self._processes[process.pid] = process
        return process.pid

    def ended(self) -> list[tuple[int, int]]:
        """Return process IDs and exit codes of processes that ended since the last call."""
        ended = []
        for pid, process in list(self._processes.items()):
            exit_code = process.poll()
            if exit_code is not None:
                del self._processes[pid]
                ended.append((pid, exit_code))
        return ended

    def close(self) -> None:
        """End every process."""
        for pid, process in self._processes.items():
            os.killpg(pid, signal.SIGKILL)
            process.wait()
