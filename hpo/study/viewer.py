"""Serving the MLflow UI on a home."""

import socket
import subprocess
import sys
import webbrowser

from hpo.errors import NotFoundError, UsageError
from hpo.study.home import Home


def serve_mlflow(home: Home, port: int, *, is_opening: bool) -> None:
    """Serve MLflow's UI on this machine alone until it is interrupted.

    Raises:
        NotFoundError: no run was ever tracked in this home.
        UsageError: the port is taken.
    """
    if not (home.root / "mlflow.db").exists():
        raise NotFoundError(f"nothing is tracked in {home.root} yet; run `hpo run FILE` first")
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise UsageError(f"port {port} is taken; name another one with --port")
    url = f"http://127.0.0.1:{port}"
    print(f"MLflow on {url}, Ctrl-C ends it", file=sys.stderr)  # noqa: T201
    if is_opening:
        webbrowser.open(url)
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)),
        *("--backend-store-uri", home.mlflow_uri, "--workers", "1"),
        *("--artifacts-destination", home.artifacts.as_uri()),
    ]
    subprocess.run(command, check=False)  # noqa: S603  # MLflow's own command, fixed arguments
