"""The median rule by example."""

import time
from dataclasses import replace

from hpo.domain.decision import Decision
from hpo.domain.objective import At, Direction, Objective
from hpo.domain.sweep import MedianPruning
from hpo.domain.trial import Trial, TrialState
from hpo.search.pruners.median import MedianPruner
from tests.study.simulation import LOSS, make_trial

OPTIONS = MedianPruning(startup_trials=3, warmup_epochs=1)


def judge(
    trial: Trial,
    history: list[Trial],
    options: MedianPruning = OPTIONS,
    objective: Objective = LOSS,
) -> Decision:
    return MedianPruner(options).judge(trial, history, objective)


def ended(*curves: list[float], objective: Objective = LOSS) -> list[Trial]:
    return [
        make_trial(number, curve, state=TrialState.COMPLETE, objective=objective)
        for number, curve in enumerate(curves)
    ]


FIVE = ended(*([x, x - 0.1, x - 0.2] for x in (0.5, 0.6, 0.7, 0.8, 0.9)))


def test_the_reason_has_all_numbers() -> None:
    decision = judge(make_trial(9, [0.95, 0.93, 0.912]), FIVE)
    assert decision.reason == "val_loss 0.912 is above the median 0.5 of 5 trials at epoch 3"


def test_the_best_so_far_counts_when_the_best_epoch_does() -> None:
    recovered = make_trial(9, [0.4, 0.8, 0.9])
    assert judge(recovered, FIVE).is_continue
    last = Objective(metric="val_loss", at=At.LAST)
    assert not judge(recovered, FIVE, objective=last).is_continue


def test_exactly_the_median_goes_on_and_just_above_does_not() -> None:
    assert judge(make_trial(9, [0.9, 0.9, 0.5]), FIVE).is_continue
    decision = judge(make_trial(9, [0.9, 0.9, 0.50001]), FIVE)
    assert decision.reason == "val_loss 0.50001 is above the median 0.5 of 5 trials at epoch 3"


def test_nothing_is_pruned_in_warmup() -> None:
    slow = MedianPruning(startup_trials=3, warmup_epochs=3)
    assert judge(make_trial(9, [9.0, 9.0, 9.0]), FIVE, slow).is_continue
    assert not judge(make_trial(9, [9.0] * 4), ended(*([0.1] * 4,) * 3), slow).is_continue


def test_a_late_bloomer_survives_with_enough_warmup_only() -> None:
    # The annealed learning rates that win late look worst early.
    steady = ended(*([0.5 - 0.01 * epoch for epoch in range(12)],) * 5)
    late = [1.0] * 6 + [0.3, 0.2, 0.1]
    patient = MedianPruning(startup_trials=3, warmup_epochs=6)
    hasty = MedianPruning(startup_trials=3, warmup_epochs=2)

    def survives(options: MedianPruning) -> bool:
        return all(
            judge(make_trial(9, late[:epoch]), steady, options).is_continue
            for epoch in range(1, 10)
        )

    assert survives(patient)
    assert not survives(hasty)


def test_nothing_is_pruned_before_enough_have_ended() -> None:
    running = [replace(trial, state=TrialState.RUNNING) for trial in FIVE]
    bad = make_trial(9, [9.0] * 3)
    assert judge(bad, running).is_continue
    assert judge(bad, [*running[:3], *FIVE[3:]]).is_continue
    assert not judge(bad, [*running[:2], *FIVE[2:]]).is_continue


def test_a_few_trials_at_an_epoch_are_no_crowd() -> None:
    history = [*FIVE, *ended([0.1] * 9, [0.1] * 9)]
    history[5:] = [
        replace(t, plan=replace(t.plan, number=5 + t.number, config={"lr": t.number + 1.0}))
        for t in history[5:]
    ]
    assert judge(make_trial(9, [9.0] * 4), history).is_continue
    assert not judge(make_trial(9, [9.0] * 3), history).is_continue


def test_running_and_pruned_trials_that_reached_the_epoch_count() -> None:
    history = [
        *FIVE[:3],
        make_trial(3, [0.9, 0.9, 0.9], state=TrialState.PRUNED),
        make_trial(4, [0.9, 0.9, 0.9]),
    ]
    assert judge(make_trial(9, [0.9, 0.9, 0.5]), history).is_continue
    assert not judge(make_trial(9, [0.9, 0.9, 0.5]), FIVE[:3]).is_continue


def test_a_diverging_trial_is_pruned_once_it_is_worse() -> None:
    curve = [0.6, 0.7, 5.0, 900.0]
    last = Objective(metric="val_loss", at=At.LAST)
    history = ended(*([0.7, 0.65, 0.6, 0.55],) * 3)
    decisions = [
        judge(make_trial(9, curve[:epoch]), history, objective=last).is_continue
        for epoch in range(1, 5)
    ]
    assert decisions == [True, False, False, False]


def test_below_is_bad_when_large_is_good() -> None:
    accuracy = Objective(metric="val_accuracy", direction=Direction.MAXIMIZE)
    history = ended(*([x] * 3 for x in (0.7, 0.8, 0.9)), objective=accuracy)
    decision = judge(make_trial(9, [0.4] * 3, objective=accuracy), history, objective=accuracy)
    assert decision.reason == "val_accuracy 0.4 is below the median 0.8 of 3 trials at epoch 3"


def test_replicates_are_one_voice() -> None:
    good = {"lr": 0.5}
    history = [
        make_trial(10 + k, [0.1] * 3, state=TrialState.COMPLETE, config=good, replicate=k)
        for k in range(9)
    ]
    others = ended(*([x] * 3 for x in (0.6, 0.7, 0.8)))
    trial = make_trial(30, [0.65] * 3)
    assert judge(trial, history).is_continue  # one configuration is no crowd
    assert judge(trial, [*history, *others]).is_continue  # 0.1, 0.6, 0.7, 0.8
    decision = judge(make_trial(30, [0.66] * 3), [*history, *others])
    assert decision.reason == (
        "val_loss 0.66 is above the median 0.65 of 4 configurations at epoch 3"
    )


def test_a_thousand_trials_are_judged_in_a_twentieth_of_a_second() -> None:
    history = ended(
        *([1.0 / (epoch + number) for epoch in range(1, 28)] for number in range(1000))
    )
    pruner = MedianPruner(OPTIONS)
    pruner.judge(make_trial(2000, [9.0] * 2), history, LOSS)
    start = time.process_time()
    for epoch in range(2, 12):
        pruner.judge(make_trial(2000, [9.0] * epoch), history, LOSS)
    assert (time.process_time() - start) / 10 < 0.05
