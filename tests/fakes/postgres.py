"""A PostgreSQL server of the tests' own: no port, no password, gone with its folder."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

DEBIAN_BINARIES = Path("/usr/lib/postgresql")
"""Where Debian keeps one folder of server binaries a version."""


def server_binaries() -> Path | None:
    """Return the folder with `initdb` and `pg_ctl` of the newest server, or None."""
    folders = [path for path in DEBIAN_BINARIES.glob("*/bin") if (path / "initdb").exists()]
    if folders:
        return max(folders, key=lambda path: float(path.parent.name))
    initdb = shutil.which("initdb")
    return Path(initdb).parent if initdb else None


@contextlib.contextmanager
def private_server(binaries: Path) -> Iterator[str]:
    """Run a server on a socket in a temporary folder; yields the URL of its first database."""
    folder = Path(tempfile.mkdtemp(prefix="hpo-postgres-"))
    user = None
    if os.getuid() == 0:  # the server refuses to run as root
        user = pwd.getpwnam("nobody").pw_uid
        os.chown(folder, user, -1)
    data = folder / "data"

    def execute(*command: str | Path) -> None:
        with (folder / "commands.log").open("ab") as log:
            subprocess.run(command, user=user, cwd=folder, stdout=log, stderr=log, check=True)

    execute(binaries / "initdb", "-D", data, "-U", "hpo", "-A", "trust", "-E", "UTF8", "-N")
    options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=60"
    control = (binaries / "pg_ctl", "-D", data, "-l", folder / "server.log", "-w")
    execute(*control, "-o", options, "start")
    try:
        yield f"postgresql+psycopg://hpo@/postgres?host={folder}"
    finally:
        execute(*control, "-m", "immediate", "stop")
        shutil.rmtree(folder)
