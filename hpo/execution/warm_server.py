"""A process that has imported the training code once and forks one fresh process for each job.

It imports, waits and forks: it runs no tensor operation, starts no thread and touches no GPU,
since a child of a process that ran a two-thread matmul hangs for ever. It forks only from its main
thread, because the parent-death signal is bound to the thread that forked.

Protocol over the socket it inherits, one JSON line each way: a request arrives together with the
job's channel, log file and slot lock as file descriptors, and is answered by `{"pid": n}`; the end
of a job is told by `{"ended": pid, "exit_code": n}`. End of file ends the server and every job:
the server outlives its conductor for the moment it takes to kill their process groups, since a
parent-death signal does not reach what a job started.
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
import traceback
from typing import Any

from hpo.execution.entry_point import run_entry_point
from hpo.execution.orphan import die_with_parent

_MOST_DESCRIPTORS = 80
"""Of one request: the channel, the log, and a lock for each of at most 64 GPUs."""


def serve(connection: socket.socket, preload: list[str]) -> None:
    """Import `preload`, then fork a process for each request until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the conductor decides what Ctrl-C means
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for module in preload:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # children share the pages of what is imported
    children: set[int] = set()
    try:
        _say(connection, {"ready": True})
        while True:
            readable, _, _ = select.select([connection.fileno(), wakeup_read], [], [])
            if wakeup_read in readable:
                os.read(wakeup_read, 4096)
                _reap(connection, children)
            if connection.fileno() in readable:
                request, descriptors = _receive(connection)
                children.add(_fork(connection, request, descriptors))
    except (EOFError, ConnectionError):  # the conductor closed, or is gone
        pass
    finally:
        _end(children)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Read one request, which may come in pieces; the descriptors come with the first."""
    data, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, _MOST_DESCRIPTORS)
    while not data.endswith(b"\n"):
        piece = connection.recv(1 << 16)
        if not piece:
            raise EOFError
        data += piece
    return json.loads(data), descriptors


def _reap(connection: socket.socket, children: set[int]) -> None:
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            children.discard(pid)
            exit_code = os.waitstatus_to_exitcode(status)
            _say(connection, {"ended": pid, "exit_code": exit_code})


def _end(children: set[int]) -> None:
    """Kill every job's process group and wait until the jobs are gone."""
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)


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
        except SystemExit as leaving:
            exit_code = leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))
        except BaseException:  # noqa: BLE001  # the child must not return into the server's loop
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError):  # a full disk
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(exit_code)
    with contextlib.suppress(ProcessLookupError):
        os.setpgid(pid, pid)  # here too, so that it leads its group before its ID is told
    for descriptor in descriptors:
        os.close(descriptor)
    _say(connection, {"pid": pid})
    return pid


def _become_job(request: dict[str, Any], descriptors: list[int], server: int) -> int:
    os.setpgid(0, 0)  # its own process group, so that all of it can be killed at once
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    die_with_parent(server)
    channel, log = descriptors[:2]  # the others are the locks of the slot, held by being open
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.environ.update(request["environment"])
    return run_entry_point(request, socket.socket(fileno=channel))


def main() -> None:
    """Serve the connection named on the command line: FD MODULE.."""
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])


if __name__ == "__main__":
    main()
