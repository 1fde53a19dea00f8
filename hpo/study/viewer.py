"""Serving the MLflow UI on a home."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import webbrowser
from collections.abc import Callable

from hpo.clock import Clock
from hpo.errors import HpoError, NotFoundError, UsageError
from hpo.execution.signals import interruptible
from hpo.study.home import Home

START_S = 90.0
"""How long MLflow may take to answer; 8 to 20 s are usual."""

SETTINGS = {
    # Background jobs start nine more processes and serve features that a viewer has no use for.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


def serve_mlflow(
    home: Home, port: int, clock: Clock, announce: Callable[[str], None], *, is_opening: bool
) -> None:
    """Serve MLflow's UI on this machine alone until it is interrupted.

    Raises:
        NotFoundError: no run was ever tracked in this home.
        UsageError: the port is taken.
        HpoError: MLflow does not start.
    """
    if not (home.root / "mlflow.db").exists():
        raise NotFoundError(f"nothing is tracked in {home.root} yet; run `hpo run FILE` first")
    if _answers(port):
        raise UsageError(f"port {port} is taken; name another one with --port")
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)),
        *("--backend-store-uri", home.mlflow_uri, "--workers", "1"),
        *("--artifacts-destination", home.artifacts.as_uri()),
    ]
    url = f"http://127.0.0.1:{port}"
    with interruptible() as interruption, home.log.open("ab") as log:
        # Its own session, so that all of its processes can be ended together.
        server = subprocess.Popen(  # noqa: S603  # MLflow's own command, fixed arguments
            command,
            env={**os.environ, **SETTINGS},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            announce(f"starting MLflow; its output goes to {home.log}")
            deadline_s = clock.monotonic() + START_S
            is_up = False
            while not interruption.count:
                if server.poll() is not None or (not is_up and clock.monotonic() > deadline_s):
                    raise HpoError(f"MLflow did not start; see the end of {home.log}")
                if not is_up and _answers(port):
                    is_up = True
                    announce(f"MLflow is on {url}; Ctrl-C ends it")
                    if is_opening:
                        webbrowser.open(url)
                clock.sleep(0.2)
        finally:
            _end(server)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end(server: subprocess.Popen[bytes]) -> None:
    """End every process of the server: politely, then not."""
    for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(patience_s)
