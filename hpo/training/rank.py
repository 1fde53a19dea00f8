"""What runs in the other processes of a trial that trains on several devices.

`python -m hpo.training.rank` reads one line of JSON from its standard input, trains along, and
ends when rank 0 does: the end of its input means that rank 0 is gone.
"""

import json
import os
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

from hpo.training.ranks import joined, rank_device
from hpo.training.task import TrialRequest
from hpo.training.tasks.classifier import follow

LEADER_GONE = 75
"""Exit code where rank 0 is gone (EX_TEMPFAIL)."""


def main() -> None:
    """Train along with rank 0."""
    asked: dict[str, Any] = json.loads(sys.stdin.readline())
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  # rank 0 says everything for all
    threading.Thread(target=_end_with_leader, daemon=True).start()
    request = TrialRequest.from_json(asked["asked"]["request"])
    rank, num_ranks = asked["rank"], asked["num_ranks"]
    device = rank_device(request.device, rank)
    timeout = timedelta(seconds=asked["timeout_s"])
    with joined(rank, num_ranks, device, asked["port"], timeout) as ranks:
        follow(request, ranks, device, is_resumed=asked["asked"]["is_resumed"])


def _end_with_leader() -> None:
    sys.stdin.read()
    os._exit(LEADER_GONE)


if __name__ == "__main__":
    main()
