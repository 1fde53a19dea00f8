"""What is let through of a report, and what the end of a process means."""

import math
import signal

from hpo.domain.trial import TIMING_METRICS, FailureKind, Measurement


def fault_of(measurement: Measurement, metric: str) -> tuple[str, FailureKind] | None:
    """Return what is wrong with a report, for people and by kind; None lets it through.

    Args:
        measurement: as reported, which may hold values that are not finite.
        metric: the objective's, which every report must carry.
    """
    if metric not in measurement.metrics:
        return f"its report lacks {metric}", FailureKind.BUG
    for name, value in measurement.metrics.items():
        if not math.isfinite(value):
            return f"{name} is {value} at epoch {measurement.epoch}", FailureKind.DIVERGED
    return None


def differing(recorded: Measurement, again: Measurement) -> list[str]:
    """Return the metrics that came out otherwise when an epoch was trained again, sorted."""
    return sorted(
        name
        for name in recorded.metrics.keys() - TIMING_METRICS
        if recorded.metrics[name] != again.metrics.get(name)
    )


def describe_exit(exit_code: int) -> str:
    """Return how a process ended without a result, to follow `its process`."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code} and no result"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"
