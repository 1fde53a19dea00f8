"""A process that has imported the training code once and forks one fresh process for each job.

It imports, waits and forks: it runs no tensor operation, starts no thread and touches no GPU,
since a child of a process that ran a two-thread matmul hangs for ever. It forks only from its main
thread, because the parent-death signal is bound to the thread that forked.

Protocol over the socket it inherits, one JSON line each way: a request arrives together with the
job's channel, log file and slot lock as file descriptors, and is answered by `{"pid": n}`; the end
of a job is told by `{"ended": pid, "exit_code": n}`. End of file ends the server and every job.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from hpo.execution.entry_point import run_entry_point
from hpo.execution.orphan import die_with_parent

MAX_REQUEST_BYTES = 1 << 20


def serve(connection: socket.socket, preload: list[str], parent: int) -> None:
    """Import `preload`, then fork a process for each request until the connection closes."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the conductor decides what Ctrl-C means
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for module in preload:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # children share the pages of what is imported
    _say(connection, {"ready": True})
    children: set[int] = set()
    while True:
        readable, _, _ = select.select([connection.fileno(), wakeup_read], [], [])
        if wakeup_read in readable:
            os.read(wakeup_read, 4096)
            _reap(connection, children)
        if connection.fileno() in readable:
            data, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 8)
            if not data:
                break
            children.add(_fork(connection, json.loads(data), descriptors))
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _reap(connection: socket.socket, children: set[int]) -> None:
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            children.discard(pid)
            exit_code = os.waitstatus_to_exitcode(status)
            _say(connection, {"ended": pid, "exit_code": exit_code})


def _say(connection: socket.socket, document: dict[str, Any]) -> None:
    connection.sendall(json.dumps(document).encode() + b"\n")


def _fork(connection: socket.socket, request: dict[str, Any], descriptors: list[int]) -> int:
    """Fork a process for a request; the child never returns."""
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        exit_code = 1
        try:
            connection.close()
            exit_code = _become_job(request, descriptors, server)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(exit_code)
    for descriptor in descriptors:
        os.close(descriptor)
    _say(connection, {"pid": pid})
    return pid


def _become_job(request: dict[str, Any], descriptors: list[int], server: int) -> int:
    os.setsid()  # its own process group, so that all of it can be killed at once
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    die_with_parent(server)
    channel, log = descriptors[:2]  # a third one is the slot's lock, held by being open
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.environ.update(request["environment"])
    return run_entry_point(request, socket.socket(fileno=channel))


def main() -> None:
    """Serve the connection named on the command line: FD PARENT-PID MODULE.."""
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[3:], int(sys.argv[2]))


if __name__ == "__main__":
    main()
