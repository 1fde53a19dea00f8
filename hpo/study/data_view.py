"""A look at a sweep's data before anything is trained on it."""

from pathlib import Path
from typing import Any

from hpo.domain.sweep import Sweep
from hpo.execution.call import call
from hpo.search.seeds import split_seed
from hpo.study.compose import open_executor
from hpo.study.home import Home

WORKER = "hpo.study.data_worker"
"""The module whose function is the entry point."""


def view_data(sweep: Sweep, home: Home, sheet: Path) -> dict[str, Any]:
    """Decode and divide the data of a sweep as its study would, and describe what is there.

    Args:
        sweep: names the data.
        home: keeps the decoded images, for the study too.
        sheet: the PNG file to draw some images of each class on.

    Returns:
        Plain JSON, as `hpo.training.data.inspection.report` has it.

    Raises:
        CallFailedError: the data cannot be used; the message says why.
    """
    payload = {
        "config": dict(sweep.baseline),
        "cache_dir": str(home.cache),
        "split_seed": split_seed(sweep.seed),
        "sheet": str(sheet.absolute()),
    }
    with open_executor(sweep.execution) as executor:
        return call(executor, f"{WORKER}:look", payload, home.log)
