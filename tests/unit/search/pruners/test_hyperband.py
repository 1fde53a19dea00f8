"""Hyperband's brackets by example."""

from collections import Counter

from hpo.domain.sweep import Hyperband
from hpo.domain.trial import Trial, TrialState
from hpo.search.pruners.hyperband import HyperbandPruner, bracket_shares
from tests.study.simulation import LOSS, make_trial

MANY = [make_trial(number, [], config={"lr": 1e-6 * (number + 1)}) for number in range(3000)]


def test_shares_are_those_of_the_paper() -> None:
    # Table 1 of the paper: R = 81, eta = 3. The last column is 5 there too.
    assert bracket_shares(Hyperband(), 81) == [81, 34, 15, 8, 5]
    assert bracket_shares(Hyperband(min_epochs=27), 27) == [1]


def test_configurations_fall_into_brackets_in_proportion() -> None:
    pruner = HyperbandPruner(Hyperband())
    counts = Counter(pruner.bracket(trial) for trial in MANY)
    shares = bracket_shares(Hyperband(), 27)
    for bracket, share in enumerate(shares):
        assert abs(counts[bracket] / len(MANY) - share / sum(shares)) < 0.03


def test_a_bracket_is_the_configurations_own() -> None:
    pruner = HyperbandPruner(Hyperband())
    assert [pruner.bracket(trial) for trial in MANY[:12]] == [0, 0, 0, 1, 3, 1, 0, 0, 2, 2, 0, 0]


def test_trials_compete_within_their_bracket_from_its_first_rung() -> None:
    pruner = HyperbandPruner(Hyperband())
    by_bracket: dict[int, list[Trial]] = {}
    for trial in MANY:
        by_bracket.setdefault(pruner.bracket(trial), []).append(trial)

    def good(trial: Trial) -> Trial:
        return make_trial(
            trial.number, [0.1] * 27, state=TrialState.COMPLETE, config=dict(trial.plan.config)
        )

    for bracket, trials in by_bracket.items():
        own = [good(trial) for trial in trials[1:6]]
        others = [good(t) for b, ts in by_bracket.items() if b != bracket for t in ts[:5]]
        config = dict(trials[0].plan.config)
        pruned = [
            epoch
            for epoch in range(1, 27)
            if not pruner.judge(
                make_trial(5000, [9.0] * epoch, config=config), [*own, *others], LOSS
            ).is_continue
        ]
        assert pruned == [rung for rung in (1, 3, 9) if rung >= 3**bracket]
        last = make_trial(5000, [9.0] * 9, config=config)
        assert pruner.judge(last, others, LOSS).is_continue
