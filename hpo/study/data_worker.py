"""What looks at a data set in its own process; an entry point, as in `hpo.study.worker`."""

from pathlib import Path
from typing import Any

from hpo.domain.trial import FailureKind
from hpo.execution.channel import Channel
from hpo.execution.entry_point import FailedTrialError
from hpo.training.data.inspection.report import look_at
from hpo.training.data.store import DataDamagedError
from hpo.training.task import BadConfigError


def look(payload: dict[str, Any], _channel: Channel) -> dict[str, Any]:
    """Describe a data set; `hpo.study.data_view` writes the payload."""
    try:
        return look_at(
            payload["config"],
            Path(payload["cache_dir"]),
            payload["split_seed"],
            Path(payload["sheet"]),
        )
    except (BadConfigError, DataDamagedError) as error:
        raise FailedTrialError(FailureKind.BAD_CONFIG, str(error)) from error
