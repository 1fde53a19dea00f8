"""No pruning: every trial trains to its end."""

from collections.abc import Sequence

from hpo.domain.decision import CONTINUE, Decision
from hpo.domain.objective import Objective
from hpo.domain.trial import Trial


class NoPruner:
    """Lets every trial continue."""

    def judge(
        self,
        trial: Trial,  # noqa: ARG002  # the promise of every pruner
        history: Sequence[Trial],  # noqa: ARG002
        objective: Objective,  # noqa: ARG002
    ) -> Decision:
        """Continue."""
        return CONTINUE
