"""Random search: independent draws over the whole space.

Source: Bergstra and Bengio, Random Search for Hyper-Parameter Optimization, JMLR 13, 2012.
"""

import itertools
from collections.abc import Sequence

from hpo.domain.search_space import Params
from hpo.domain.sweep import Sweep
from hpo.domain.trial import PlannedTrial, Trial
from hpo.search.plan import Candidate, Plan, opening
from hpo.search.point import draw_unseen


class RandomSampler:
    """Draws configuration i from (study seed, i), so the sequence does not depend on results.

    Differs: a draw that is in the study already is drawn again, and ends with the space.
    """

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep

    def propose(self, history: Sequence[Trial]) -> tuple[PlannedTrial, ...]:
        """Return the next configuration."""
        plan = Plan(self._sweep, history)
        for candidate in itertools.chain(plan.unfinished(), opening(self._sweep)):
            if trials := plan.add(candidate):
                return trials
        if plan.is_full:
            return ()
        config = next_random(self._sweep, plan)
        return plan.add(Candidate(config=config)) if config is not None else ()


def next_random(sweep: Sweep, plan: Plan) -> Params | None:
    """Return the random configuration that comes next in a plan, or None when all are planned."""
    point = draw_unseen(
        sweep.space,
        lambda point: plan.holds({**sweep.baseline, **point}),
        sweep.seed,
        plan.num_configurations,
    )
    return None if point is None else {**sweep.baseline, **point}
