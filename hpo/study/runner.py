"""The conductor's loop: ask, submit, collect, decide, tell."""

from hpo.domain.study import StudyState
from hpo.execution.executor import JobEnded
from hpo.execution.message import Message
from hpo.study.conductor import Conductor, StudyParts

__all__ = ["StudyParts", "run_study"]

POLL_S = 0.25
"""How long the loop waits for a message before it looks at signals and requests."""


def run_study(parts: StudyParts) -> StudyState:
    """Run a study until its plan or budget is spent, or until it is asked to stop.

    Returns:
        Where the study stands now.
    """
    conductor = Conductor(parts)
    conductor.begin()
    while True:
        conductor.heed_requests()
        conductor.fill_slots()
        if conductor.is_idle:
            break
        for arrival in parts.executor.poll(POLL_S):
            match arrival:
                case Message():
                    conductor.take_message(arrival)
                case JobEnded():
                    conductor.take_end(arrival)
    return conductor.end()
