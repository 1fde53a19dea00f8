"""What a test must leave as it found it: environment, folder, threads, children, random streams.

Python's own `random` is left out, because importing scikit-learn and creating an MLflow run draw
from it. Whatever seeds that stream seeds the ones of NumPy and torch too.
"""

import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

SET_BY_LIBRARIES = ("KMP_", "TORCHINDUCTOR_", "_MLFLOW_", "PYTEST_", "COV_")
"""Variables that importing a library, or the test runner, changes for the whole process."""

THREADS_OF_LIBRARIES = ("MLflow", "tqdm", "pytest_timeout", "IOThread", "QueueFeeder")
"""Threads that a library starts once for the whole process."""

CHILDREN_OF_LIBRARIES = ("resource_tracker",)
"""Processes that a library starts once for the whole process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A picture of the process, to compare with a later one."""

    environment: Mapping[str, str]
    cwd: Path
    threads: frozenset[threading.Thread]
    children: frozenset[psutil.Process]
    streams: Mapping[str, Any]
    """State of each global random stream whose library is loaded."""

    @classmethod
    def now(cls) -> "Surroundings":
        """Take a picture."""
        return cls(
            environment=dict(os.environ),
            cwd=Path.cwd(),
            threads=frozenset(threading.enumerate()),
            children=frozenset(psutil.Process().children()),
            streams=_streams(),
        )

    def leaks(self, grace_s: float = 5.0) -> list[str]:
        """Return a sentence for each thing that is no longer as it was.

        Args:
            grace_s: how long threads and children may take to end.
        """
        deadline = time.monotonic() + grace_s
        return [
            *self._leaked_environment(),
            *([] if Path.cwd() == self.cwd else [f"the working folder is now {Path.cwd()}"]),
            *self._leaked_threads(deadline),
            *self._leaked_children(deadline),
            *self._leaked_streams(),
        ]

    def restore(self) -> None:
        """Undo what can be undone, so that one leak does not fail the tests after it."""
        os.chdir(self.cwd)
        for name in os.environ.keys() - self.environment.keys():
            if not name.startswith(SET_BY_LIBRARIES):
                del os.environ[name]
        os.environ.update(
            {k: v for k, v in self.environment.items() if not k.startswith(SET_BY_LIBRARIES)}
        )
        for child in self._new_children():
            child.kill()
        restore_streams(self.streams)

    def _leaked_environment(self) -> list[str]:
        now = dict(os.environ)
        return [
            f"the environment variable {name} is now {now.get(name)!r},"
            f" it was {self.environment.get(name)!r}"
            for name in sorted(now.keys() | self.environment.keys())
            if now.get(name) != self.environment.get(name)
            and not name.startswith(SET_BY_LIBRARIES)
        ]

    def _leaked_threads(self, deadline: float) -> list[str]:
        new = [
            thread
            for thread in threading.enumerate()
            if thread not in self.threads and not thread.name.startswith(THREADS_OF_LIBRARIES)
        ]
        for thread in new:
            thread.join(max(0.0, deadline - time.monotonic()))
        return [f"the thread {thread.name} is alive" for thread in new if thread.is_alive()]

    def _leaked_children(self, deadline: float) -> list[str]:
        new = self._new_children()
        _, alive = psutil.wait_procs(new, timeout=max(0.0, deadline - time.monotonic()))
        return [f"the child process {child.pid} is alive" for child in alive]

    def _new_children(self) -> list[psutil.Process]:
        return [
            child
            for child in psutil.Process().children()
            if child not in self.children and not _is_of_library(child)
        ]

    def _leaked_streams(self) -> list[str]:
        now = _streams()
        return [
            f"the global random stream of {library} has moved;"
            " take the fixture global_streams, which puts it back"
            for library, state in self.streams.items()
            if library in now and not _is_same(now[library], state)
        ]


def restore_streams(streams: Mapping[str, Any]) -> None:
    """Put the global random streams back to `streams`."""
    if "numpy" in streams:
        sys.modules["numpy"].random.set_state(streams["numpy"])
    if "torch" in streams:
        sys.modules["torch"].set_rng_state(streams["torch"])


def _streams() -> dict[str, Any]:
    streams: dict[str, Any] = {}
    if "numpy.random" in sys.modules:
        streams["numpy"] = sys.modules["numpy"].random.get_state()
    if hasattr(sys.modules.get("torch"), "get_rng_state"):
        streams["torch"] = sys.modules["torch"].get_rng_state()
    return streams


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, tuple):  # NumPy's: a name, an array, numbers
        return all(map(_is_same, left, right))
    return bool((left == right).all()) if hasattr(left, "all") else bool(left == right)


def _is_of_library(child: psutil.Process) -> bool:
    try:
        command = " ".join(child.cmdline())
    except psutil.NoSuchProcess:
        return True
    return any(word in command for word in CHILDREN_OF_LIBRARIES)
