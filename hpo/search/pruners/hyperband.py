"""Hyperband: several ladders of successive halving, of which some begin to judge late.

A late bloomer that every early rung would cut survives in a bracket that does not look early.
"""

from collections.abc import Sequence

from hpo.domain.decision import CONTINUE, Decision
from hpo.domain.objective import Objective
from hpo.domain.sweep import Hyperband
from hpo.domain.trial import Trial
from hpo.search.pruners.successive_halving import Ladder
from hpo.search.standing import total_epochs


class HyperbandPruner:
    """Puts each configuration into a bracket by its hash; trials compete within their bracket.

    Bracket k's first rung is `min_epochs * eta**k`; the last bracket never judges. Brackets get
    configurations in Hyperband's own proportions. The same configuration has the same bracket in
    every study, under every order of arrival.

    Source: Li et al., Hyperband, JMLR 18, 2018, algorithm 1.
    Differs: brackets run side by side and each is asynchronous.
    """

    def __init__(self, options: Hyperband) -> None:
        self._options = options
        self._ladder = Ladder(options.reduction_factor)
        self._brackets: dict[tuple[str, int | None], int] = {}  # a memory, as hashing is the cost

    def judge(self, trial: Trial, history: Sequence[Trial], objective: Objective) -> Decision:
        """Prune a trial that is outside the best fraction of its bracket at a rung."""
        bracket = self.bracket(trial)
        rung = self._options.min_epochs * self._options.reduction_factor**bracket
        if trial.num_epochs < rung:
            return CONTINUE
        return self._ladder.judge(
            trial, history, objective, rung, lambda other: self.bracket(other) == bracket
        )

    def bracket(self, trial: Trial) -> int:
        """Return the bracket of a trial's configuration, from 0, the one that judges earliest."""
        key = (trial.plan.config_id, total_epochs(trial))
        if key not in self._brackets:
            self._brackets[key] = self._place(*key)
        return self._brackets[key]

    def _place(self, config_id: str, epochs: int | None) -> int:
        if epochs is None:  # no end is known, hence no number of brackets
            return 0
        shares = bracket_shares(self._options, epochs)
        position = int(config_id, 16) % sum(shares)
        bracket = 0
        while position >= shares[bracket]:
            position -= shares[bracket]
            bracket += 1
        return bracket


def bracket_shares(options: Hyperband, epochs: int) -> list[int]:
    """Return how many configurations in a round of Hyperband go into each bracket.

    Args:
        options: of the pruner.
        epochs: of a whole trial. Every rung below it has a bracket, and one more never judges.
    """
    num_rungs = 0
    while options.min_epochs * options.reduction_factor**num_rungs < epochs:
        num_rungs += 1
    # n = ceil((s_max + 1) / (s + 1) * eta**s), where s counts the rungs that a bracket has.
    return [
        -(-(num_rungs + 1) * options.reduction_factor**s // (s + 1))
        for s in range(num_rungs, -1, -1)
    ]
