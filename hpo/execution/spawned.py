"""The start of a job's process on systems without fork: FD PARENT-PID on the command line.

A module of its own: the one that runs as `__main__` is a second copy of itself, whose exceptions
are not those that the training raises.
"""

import json
import os
import socket
import sys

from hpo.execution.entry_point import run_entry_point
from hpo.execution.orphan import die_with_parent


def main() -> None:
    """Run the job whose request and channel were inherited."""
    die_with_parent(int(sys.argv[2]))
    connection = socket.socket(fileno=int(sys.argv[1]))
    sys.exit(run_entry_point(json.loads(os.environ.pop("HPO_JOB")), connection))


if __name__ == "__main__":
    main()
