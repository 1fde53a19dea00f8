"""Tables and closing lines that several verbs print."""

from hpo.cli.output import answer, answer_table
from hpo.domain.trial import TrialState
from hpo.statistics.summary import ConfigurationSummary
from hpo.study.conclusion import Conclusion, caveats

MOST_ROWS = 25
"""Rows of configurations shown; a search may have hundreds."""


def show_conclusion(conclusion: Conclusion) -> None:
    """Print a study's configurations, its winner, and what to type next."""
    study = conclusion.study
    show_configurations(conclusion)
    answer("")
    counts = ", ".join(
        f"{study.count(state)} {state.value.lower()}" for state in TrialState if study.count(state)
    )
    answer(f"{study.name}: {len(study.trials)} trials, {counts}")
    if conclusion.winner is not None:
        answer(f"winner: {conclusion.name(conclusion.winner)}")
    answer(f"verdict: {conclusion.verdict}")
    answer(f"holds for: {caveats(study)}")
    if conclusion.winner is not None:
        number = conclusion.winner.trials[0].number
        answer("")
        answer("next:")
        answer(f"  hpo best {study.name} --export     test the winner once and export it")
        answer(f"  hpo reproduce {study.name}/{number}        train it again and compare")
        answer("  hpo ui                         compare the curves in MLflow")


def show_configurations(conclusion: Conclusion) -> None:
    """Print configurations with mean and interval, the best first."""
    metric = conclusion.study.sweep.objective.metric
    header = ["configuration", f"mean {metric}", "95 % interval", "seeds", "not complete"]
    rows = [_row(conclusion, summary) for summary in conclusion.summaries[:MOST_ROWS]]
    answer_table(header, rows, numeric=[1, 2, 3])
    hidden = len(conclusion.summaries) - MOST_ROWS
    if hidden > 0:
        answer(f"and {hidden} more; `hpo compare {conclusion.study.name} --json` has all")


def _row(conclusion: Conclusion, summary: ConfigurationSummary) -> list[object]:
    interval = summary.interval
    ended_early = [
        f"{count} {word}"
        for count, word in [
            (summary.num_pruned, "pruned"),
            (summary.num_failed, "failed"),
            (_num_open(summary), "open"),
        ]
        if count
    ]
    return [
        conclusion.name(summary),
        f"{summary.mean:.4f}" if summary.mean is not None else None,
        f"{interval.low:.4f} to {interval.high:.4f}" if interval else None,
        summary.num_complete,
        ", ".join(ended_early),
    ]


def _num_open(summary: ConfigurationSummary) -> int:
    return sum(not trial.state.is_finished for trial in summary.trials)
