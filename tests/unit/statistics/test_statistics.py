"""Means, intervals, rankings and verdicts, against scipy and by example."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hpo.domain.objective import Direction, Objective
from hpo.domain.trial import FailureKind, Role, Trial, TrialState
from hpo.statistics.difference import paired_difference
from hpo.statistics.interval import mean_interval
from hpo.statistics.summary import (
    ConfigurationSummary,
    baseline_of,
    median_replicate,
    runner_up,
    summarise,
    winner,
)
from hpo.statistics.verdict import verdict
from tests.study.simulation import LOSS, make_trial

ACCURACY = Objective(metric="val_loss", direction=Direction.MAXIMIZE)


def replicates(
    first_number: int,
    values: list[float],
    role: Role = Role.POINT,
    epochs: int = 2,
) -> list[Trial]:
    """Return the COMPLETE replicates of one configuration, which its first number tells apart."""
    return [
        make_trial(
            first_number + index,
            [value] * epochs,
            state=TrialState.COMPLETE,
            config={"lr": 1e-4 * (first_number + 1)},
            replicate=index,
            role=role,
        )
        for index, value in enumerate(values)
    ]


BASELINE = replicates(0, [0.50, 0.60, 0.55], Role.BASELINE)


def verdict_on(trials: list[Trial], objective: Objective = LOSS) -> str:
    summaries = summarise(trials, objective)
    return verdict(winner(summaries), baseline_of(summaries), runner_up(summaries))


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12))
def test_intervals_are_scipys(values: list[float]) -> None:
    interval = mean_interval(values)
    assert interval is not None
    error = float(stats.sem(values))
    if error > 1e-9:
        low, high = stats.t.interval(
            0.95, len(values) - 1, loc=sum(values) / len(values), scale=error
        )
        assert interval.low == pytest.approx(low, rel=1e-9, abs=1e-9)
        assert interval.high == pytest.approx(high, rel=1e-9, abs=1e-9)


def test_one_value_has_no_interval() -> None:
    assert mean_interval([0.5]) is mean_interval([]) is None


def test_a_summary_holds_its_replicates() -> None:
    trials = [*BASELINE, *replicates(3, [0.4, 0.5, 0.45])]
    summary = summarise(list(reversed(trials)), LOSS)[1]
    assert summary.trials == tuple(trials[3:])
    assert summary.values == {0: 0.4, 1: 0.5, 2: 0.45}
    assert summary.mean == pytest.approx(0.45)
    assert summary.sd == pytest.approx(0.05)
    assert summary.interval == mean_interval([0.4, 0.5, 0.45])
    assert (summary.num_complete, summary.num_pruned, summary.num_failed) == (3, 0, 0)
    assert summary.is_comparable
    assert summary.params == trials[3].plan.params


def test_confirmations_and_audits_are_left_out() -> None:
    extra = [
        replace(t, plan=replace(t.plan, number=t.number + 90, role=role))
        for t, role in zip(BASELINE[:2], (Role.CONFIRM, Role.AUDIT), strict=True)
    ]
    assert summarise([*BASELINE, *extra], LOSS) == summarise(BASELINE, LOSS)


@pytest.mark.parametrize(
    "last",
    [
        replace(BASELINE[2], state=TrialState.PRUNED),
        replace(BASELINE[2], state=TrialState.FAIL, failure=FailureKind.CRASH),
        replace(BASELINE[2], state=TrialState.WAITING),
        replace(BASELINE[2], measurements=BASELINE[2].measurements[:1]),
    ],
)
def test_an_incomplete_or_unequal_configuration_is_not_comparable(last: Trial) -> None:
    (summary,) = summarise([*BASELINE[:2], last], LOSS)
    assert not summary.is_comparable
    assert winner([summary]) is None


def test_the_best_mean_wins_in_either_direction() -> None:
    summaries = summarise([*BASELINE, *replicates(3, [0.4] * 3), *replicates(6, [0.7] * 3)], LOSS)
    assert [s and s.trials[0].number for s in (winner(summaries), runner_up(summaries))] == [3, 0]
    turned = [replace(summary, objective=ACCURACY) for summary in summaries]
    assert [s and s.trials[0].number for s in (winner(turned), runner_up(turned))] == [6, 0]


def test_the_baseline_wins_a_tie_then_the_earliest() -> None:
    tied = [*replicates(3, [0.5]), *replicates(6, [0.5]), *replicates(9, [0.5], Role.BASELINE)]
    summaries = summarise(tied, LOSS)
    assert winner(summaries) is baseline_of(summaries)
    second = runner_up(summaries)
    assert second is not None
    assert second.trials[0].number == 3


def test_an_unfinished_configuration_cannot_win_by_one_lucky_seed() -> None:
    lucky = replicates(3, [0.0, 0.9, 0.9])
    lucky[1:] = [replace(trial, state=TrialState.PRUNED) for trial in lucky[1:]]
    summaries = summarise([*BASELINE, *lucky], LOSS)
    assert winner(summaries) is summaries[0]


def test_differences_are_taken_seed_by_seed() -> None:
    # The seeds differ far more than the configurations: only pairs show it.
    control = replicates(0, [0.1, 0.5, 0.9], Role.BASELINE)
    better = replicates(3, [0.08, 0.47, 0.88])
    summaries = summarise([*control, *better], LOSS)
    difference = paired_difference(summaries[1], summaries[0])
    assert difference is not None
    expected = stats.ttest_rel([0.08, 0.47, 0.88], [0.1, 0.5, 0.9]).confidence_interval()
    assert difference.interval is not None
    assert difference.interval.low == pytest.approx(expected.low)
    assert difference.interval.high == pytest.approx(expected.high)
    assert difference.is_distinguishable
    assert difference.num_better == 3
    assert difference.mean == pytest.approx(-0.07 / 3)


def test_only_shared_replicates_are_paired() -> None:
    summaries = summarise([*BASELINE, *replicates(3, [0.4])], LOSS)
    difference = paired_difference(summaries[1], summaries[0])
    assert difference is not None
    assert difference.by_replicate == {0: pytest.approx(-0.1)}
    assert difference.interval is None
    assert not difference.is_distinguishable
    shifted = [replace(t, plan=replace(t.plan, replicate=7)) for t in replicates(3, [0.4])]
    apart = summarise([*BASELINE, *shifted], LOSS)
    assert paired_difference(apart[1], apart[0]) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.3, 0.1, 0.2], 0.2), ([0.4, 0.1, 0.2, 0.3], 0.2), ([0.5], 0.5), ([0.3, 0.3], 0.3)],
)
def test_the_median_replicate_is_the_lower_middle(values: list[float], expected: float) -> None:
    (summary,) = summarise(replicates(0, values), LOSS)
    trial = median_replicate(summary)
    assert trial is not None
    assert trial.value == expected
    assert trial.number == values.index(expected)


def test_without_a_complete_trial_no_replicate_stands_for_the_rest() -> None:
    (summary,) = summarise([make_trial(0, [0.5])], LOSS)
    assert median_replicate(summary) is None
    assert (summary.mean, summary.sd, summary.interval) == (None, None, None)


def test_a_clear_winner_is_called_one_with_its_caveat() -> None:
    assert verdict_on([*BASELINE, *replicates(3, [0.39, 0.50, 0.45])]) == (
        "better than the baseline in each of 3 seeds"
        " (a difference of -0.103, 95 % interval -0.118 to -0.089);"
        " the interval of the difference excludes zero;"
        " chosen on these same seeds, which flatters it: confirm it on fresh ones"
    )


def test_large_is_better_when_the_direction_says_so() -> None:
    text = verdict_on([*BASELINE, *replicates(3, [0.61, 0.70, 0.65])], ACCURACY)
    assert text.startswith("better than the baseline in each of 3 seeds (a difference of +0.103")


def test_an_unclear_winner_is_not_called_better() -> None:
    text = verdict_on([*BASELINE, *replicates(3, [0.3, 0.7, 0.5])])
    assert text.startswith("not distinguishable from the baseline with 3 seeds (a difference of")


def test_one_seed_is_a_hint() -> None:
    trials = [*replicates(0, [0.5], Role.BASELINE), *replicates(3, [0.4])]
    assert verdict_on(trials) == (
        "one seed: no interval, treat a difference of -0.1 to the baseline as a hint"
    )


def test_the_runner_up_is_mentioned() -> None:
    close = [
        *BASELINE,
        *replicates(3, [0.39, 0.50, 0.45]),
        *replicates(6, [0.40, 0.50, 0.45]),
    ]
    assert verdict_on(close).endswith("; not distinguishable from the runner-up with 3 seeds")
    clear = [*close[:6], *replicates(6, [0.44, 0.55, 0.50])]
    assert verdict_on(clear).endswith("; distinguishable from the runner-up too")


def test_the_baseline_may_win_or_be_missing() -> None:
    assert verdict_on([*BASELINE, *replicates(3, [0.9, 1.1, 1.0])]) == (
        "nothing is better than the baseline; distinguishable from the runner-up too"
    )
    broken = [replace(BASELINE[0], state=TrialState.FAIL, failure=FailureKind.OOM)]
    assert verdict_on([*broken, *BASELINE[1:], *replicates(3, [0.4] * 3)]) == (
        "best, but the baseline is not COMPLETE on all of its seeds to compare with"
    )
    assert verdict_on(broken).startswith("nothing to compare")


def test_a_configuration_with_fewer_seeds_never_wins() -> None:
    control = replicates(0, [0.1, 0.1, 0.9, 0.9], Role.BASELINE)
    lucky = replicates(4, [0.2, 0.21])  # better mean, worse on both shared seeds
    assert "nothing is better than the baseline" in verdict_on([*control, *lucky])


def test_summaries_say_which_axis_they_belong_to() -> None:
    trials = [replace(t, plan=replace(t.plan, axis="lr")) for t in replicates(3, [0.4, 0.5])]
    (summary,) = summarise(trials, LOSS)
    assert isinstance(summary, ConfigurationSummary)
    assert (summary.axis, summary.role, summary.is_baseline) == ("lr", Role.POINT, False)
