"""What may be concluded, in plain words, without claiming more than the seeds support."""

from hpo.statistics.difference import PairedDifference, paired_difference
from hpo.statistics.summary import ConfigurationSummary

SELECTION_CAVEAT = "chosen on these same seeds, which flatters it: confirm it on fresh ones"
"""The best of many looks better than it is; the interval of its lead knows nothing of the rest."""


def verdict(
    winner: ConfigurationSummary | None,
    baseline: ConfigurationSummary | None,
    runner_up: ConfigurationSummary | None = None,
) -> str:
    """Return one or two clauses on how far the winner can be believed.

    Args:
        winner: the first of the ranking.
        baseline: the control, comparable or not.
        runner_up: the second of the ranking.
    """
    if winner is None:
        return "nothing to compare: no configuration has all of its seeds COMPLETE"
    if winner.is_baseline:
        clauses = ["nothing is better than the baseline"]
    elif baseline is None or not baseline.is_comparable:
        clauses = ["best, but the baseline is not COMPLETE on all of its seeds to compare with"]
    else:
        clauses = _against("the baseline", paired_difference(winner, baseline))
    if runner_up is not None and not runner_up.is_baseline:
        clauses += _against_runner_up(paired_difference(winner, runner_up))
    return "; ".join(clauses)


def _against(other: str, difference: PairedDifference | None) -> list[str]:
    if difference is None:
        return [f"best, but shares no seed with {other}"]
    count = difference.num_replicates
    if difference.interval is None:
        return [f"one seed: no interval, treat {_amount(difference)} to {other} as a hint"]
    if not difference.is_distinguishable:
        return [f"not distinguishable from {other} with {count} seeds ({_amount(difference)})"]
    if difference.num_better == 0:  # means over unequal seeds ranked them the other way
        return [f"best mean, yet worse than {other} in each of the {count} seeds they share"]
    each = (
        f"each of {count}"
        if difference.num_better == count
        else (f"{difference.num_better} of {count}")
    )
    return [
        f"better than {other} in {each} seeds ({_amount(difference)})",
        "the interval of the difference excludes zero",
        SELECTION_CAVEAT,
    ]


def _against_runner_up(difference: PairedDifference | None) -> list[str]:
    if difference is None or difference.interval is None:
        return []
    if difference.is_distinguishable:
        return ["distinguishable from the runner-up too"]
    return [f"not distinguishable from the runner-up with {difference.num_replicates} seeds"]


def _amount(difference: PairedDifference) -> str:
    amount = f"a difference of {difference.mean:+.3g}"
    interval = difference.interval
    if interval is None:
        return amount
    return f"{amount}, 95 % interval {interval.low:+.3g} to {interval.high:+.3g}"
