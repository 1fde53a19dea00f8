"""Starts, watches and ends the sender from a process that must not import MLflow."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tracking.outbox import Outbox
from tracking.sender import SenderStatus

_PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent)
_CALL = "from tracking.sender import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainResult:
    """What is left when the sender has ended."""

    pending: int
    """Records that stay in the outbox for the next sender; 0 when all arrived or were refused."""
    error: str | None
    """Why, when some are pending."""


class SenderProcess:
    """The sender of one outbox. Any number of them may run; one at a time works.

    Start it from the main thread: where the kernel can, it kills the sender when the thread that
    started it ends. A killed sender loses and repeats nothing.
    """

    def __init__(
        self, outbox: Path, artifact_root: Path, log: Path, uri: str | None = None
    ) -> None:
        """Say what it will work on.

        Args:
            outbox: The file; its folder is the sender's current folder.
            artifact_root: Folder for artifacts of a tracking database that no server manages.
            log: Text file that the sender's complaints are added to.
            uri: Destination to open at once rather than at the first record; see `Destination`.
        """
        self._outbox = outbox.absolute()
        self._artifact_root = artifact_root.absolute()
        self._log = log.absolute()
        self._uri = uri
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._status: SenderStatus | None = None

    @property
    def pid(self) -> int | None:
        """The running process, None when there is none."""
        is_running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process is not None and is_running else None

    def start(self) -> None:
        """Start it, unless it runs. It needs some seconds before its first delivery."""
        if self.pid is not None:
            return
        self.stop()
        self._outbox.parent.mkdir(parents=True, exist_ok=True)
        # Not `-m`: it would look for this package in the user's current folder first.
        code = f"import sys; sys.path.append({_PACKAGE_ROOT!r}); " + _CALL
        command = [sys.executable, "-P", "-c", code, "--outbox", str(self._outbox)]
        command += ["--artifact-root", str(self._artifact_root)]
        command += [] if self._uri is None else ["--prepare", self._uri]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  our own interpreter and module
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                stderr=log,
                cwd=self._outbox.parent,
                start_new_session=True,  # The terminal's Ctrl-C is not for it.
            )
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    def status(self) -> SenderStatus | None:
        """Return what it last told, None before its first word. Never waits."""
        if self._process is not None and self._process.stdout is not None:
            while chunk := self._process.stdout.read(65536):
                self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n")
        if lines:
            self._status = SenderStatus(**json.loads(lines[-1]))
        return self._status

    def drain(self, deadline_s: float) -> DrainResult:
        """Let it deliver what is there, for at most `deadline_s`, and end it."""
        process = self._process
        error: str | None = None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(f"{deadline_s}".encode())
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(deadline_s)
            status = self.status()
            if status is not None and status.error is not None:
                error = status.error
            if process.poll() not in (None, 0):
                error = f"the sender ended with exit code {process.returncode}; see {self._log}"
        self.stop()
        with Outbox(self._outbox) as outbox:
            pending = outbox.num_pending()
        late = f"not delivered within {deadline_s:g} s"
        return DrainResult(pending=pending, error=(error or late) if pending else None)

    def stop(self) -> None:
        """End it at once, whatever it does."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        self._unread = b""
