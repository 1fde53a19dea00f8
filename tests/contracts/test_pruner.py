"""The promises of `hpo.search.pruner.Pruner`, kept by every rule."""

from dataclasses import replace

import pytest

from hpo.domain.decision import Action
from hpo.domain.objective import At, Direction, Objective
from hpo.domain.sweep import Hyperband, MedianPruning, NoPruning, Pruner, SuccessiveHalving
from hpo.domain.trial import Role, Trial, TrialState
from hpo.search.pruner import make_pruner
from tests.study.simulation import LOSS, make_sweep, make_trial

RULES: list[Pruner] = [
    NoPruning(),
    MedianPruning(startup_trials=3, warmup_epochs=1),
    SuccessiveHalving(min_epochs=3),
    Hyperband(min_epochs=3),
]
ACTING = RULES[1:]

ACCURACY = Objective(metric="val_accuracy", direction=Direction.MAXIMIZE)

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
every_acting_rule = pytest.mark.parametrize("rule", ACTING, ids=lambda rule: rule.name)


def peers(count: int = 40, objective: Objective = LOSS, good: float = 0.1) -> list[Trial]:
    """Return trials that went well to the end, enough for every bracket to hold some."""
    return [
        make_trial(
            number,
            [good + number / 1000] * 27,
            state=TrialState.COMPLETE,
            objective=objective,
            config={"lr": 1e-6 * (number + 1)},
        )
        for number in range(count)
    ]


def hopeless(epochs: int = 3, value: float = 9.0, **plan: object) -> list[Trial]:
    """Return bad trials of different configurations, some in every bracket."""
    return [
        make_trial(100, [value] * epochs, config={"lr": 0.5 + index / 100}, **plan)  # type: ignore[arg-type]
        for index in range(20)
    ]


def prunes(
    rule: Pruner, trials: list[Trial], history: list[Trial], objective: Objective = LOSS
) -> list[str]:
    """Return the reasons of the trials that are pruned."""
    pruner = make_pruner(make_sweep(pruner=rule))
    decisions = [pruner.judge(trial, history, objective) for trial in trials]
    assert {decision.action for decision in decisions} <= {Action.CONTINUE, Action.PRUNE}
    return [decision.reason for decision in decisions if not decision.is_continue]


@every_acting_rule
def test_a_hopeless_trial_is_pruned_with_numbers_in_the_reason(rule: Pruner) -> None:
    reasons = prunes(rule, hopeless(), peers())
    assert reasons
    assert all("val_loss 9" in reason and "at epoch 3" in reason for reason in reasons)


@every_rule
def test_a_leading_trial_goes_on(rule: Pruner) -> None:
    assert prunes(rule, hopeless(value=0.01), peers()) == []


@every_acting_rule
def test_large_is_good_when_the_direction_says_so(rule: Pruner) -> None:
    history = peers(objective=ACCURACY, good=0.9)
    assert prunes(rule, hopeless(value=0.2, objective=ACCURACY), history, ACCURACY)
    assert prunes(rule, hopeless(value=0.99, objective=ACCURACY), history, ACCURACY) == []


@every_rule
def test_a_judgement_depends_on_its_arguments_alone(rule: Pruner) -> None:
    history, trials = peers(), hopeless()
    pruner = make_pruner(make_sweep(pruner=rule))
    alone = [make_pruner(make_sweep(pruner=rule)).judge(t, history, LOSS) for t in trials]
    # Other histories and objectives in between leave no trace.
    for trial in hopeless(value=0.0):
        pruner.judge(trial, peers(good=-5.0), replace(LOSS, at=At.LAST))
    for trial in trials:
        pruner.judge(trial, history, replace(LOSS, direction=Direction.MAXIMIZE))
    assert [pruner.judge(trial, history, LOSS) for trial in trials] == alone
    reversed_history = list(reversed(history))
    assert [pruner.judge(trial, reversed_history, LOSS) for trial in trials] == alone


@every_rule
@pytest.mark.parametrize("role", [Role.BASELINE, Role.CONFIRM, Role.AUDIT, Role.ADOPT])
def test_only_points_are_pruned(rule: Pruner, role: Role) -> None:
    assert prunes(rule, hopeless(role=role), peers()) == []


@every_rule
def test_the_last_epoch_is_never_pruned(rule: Pruner) -> None:
    assert prunes(rule, hopeless(epochs=27), peers()) == []
    ending = [
        replace(trial, plan=replace(trial.plan, config={**trial.plan.config, "epochs": 3}))
        for trial in hopeless(epochs=3)
    ]
    assert prunes(rule, ending, peers()) == []


@every_rule
def test_trials_that_did_not_get_so_far_are_no_competitors(rule: Pruner) -> None:
    behind = [replace(t, measurements=t.measurements[:2], value=0.1) for t in peers()]
    assert prunes(rule, hopeless(), behind) == []
    assert prunes(rule, hopeless(), []) == []


@every_rule
def test_confirmations_and_audits_are_no_competitors(rule: Pruner) -> None:
    roles = (Role.CONFIRM, Role.AUDIT)
    apart = [replace(t, plan=replace(t.plan, role=roles[t.number % 2])) for t in peers()]
    assert prunes(rule, hopeless(), apart) == []


@every_rule
def test_equal_trials_all_go_on(rule: Pruner) -> None:
    equal = [
        make_trial(t.number, [0.5] * 27, state=TrialState.COMPLETE, config=dict(t.plan.config))
        for t in peers()
    ]
    assert prunes(rule, hopeless(value=0.5), equal) == []


@every_rule
def test_a_metric_that_is_missing_prunes_nothing(rule: Pruner) -> None:
    assert prunes(rule, hopeless(), peers(), ACCURACY) == []


@every_rule
def test_the_trial_may_be_in_the_history_with_or_without_its_new_epoch(rule: Pruner) -> None:
    for trial in hopeless():
        older = replace(trial, measurements=trial.measurements[:-1])
        pruner = make_pruner(make_sweep(pruner=rule))
        decision = pruner.judge(trial, peers(), LOSS)
        assert pruner.judge(trial, [*peers(), trial], LOSS) == decision
        assert pruner.judge(trial, [*peers(), older], LOSS) == decision


@every_acting_rule
def test_one_bad_seed_does_not_condemn_a_configuration(rule: Pruner) -> None:
    for bad in hopeless(value=0.2):
        good = make_trial(
            101,
            [0.0] * 27,
            state=TrialState.COMPLETE,
            config=dict(bad.plan.config),
            replicate=1,
        )
        assert prunes(rule, [bad], [*peers(), good]) == []  # mean 0.1


@every_acting_rule
def test_replicates_never_compete_with_each_other(rule: Pruner) -> None:
    for bad in hopeless():
        siblings = [
            replace(
                make_trial(
                    110 + index, [0.1] * 27, config=dict(bad.plan.config), replicate=index + 1
                ),
                state=TrialState.COMPLETE,
            )
            for index in range(9)
        ]
        assert prunes(rule, [bad], siblings) == []


@every_rule
def test_a_diverged_trial_in_the_history_is_harmless(rule: Pruner) -> None:
    broken = [replace(make_trial(200 + i, []), state=TrialState.FAIL) for i in range(9)]
    pruned = prunes(rule, hopeless(), [*peers(), *broken])
    assert len(pruned) == len(prunes(rule, hopeless(), peers()))
