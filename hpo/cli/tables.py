"""Tables and closing lines that several verbs print."""

from pathlib import Path

from hpo.cli.output import answer, answer_table, answer_wrapped, size
from hpo.domain.trial import TrialState
from hpo.statistics.interval import Interval
from hpo.statistics.summary import ConfigurationSummary
from hpo.study.best import Best
from hpo.study.conclusion import Conclusion, caveats, remarks
from hpo.study.naming import value_text

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
        answer_wrapped("winner: ", conclusion.name(conclusion.winner))
    answer_wrapped("verdict: ", conclusion.verdict)
    answer_wrapped("holds for: ", caveats(study))
    for remark in remarks(conclusion):
        answer_wrapped("note: ", remark)
    if conclusion.winner is not None:
        number = conclusion.winner.trials[0].number
        answer("")
        answer("next:")
        commands = {
            f"hpo best {study.name} --export": "test the winner once and export it",
            f"hpo reproduce {study.name}/{number}": "train it again and compare",
            "hpo ui": "compare the curves in MLflow",
        }
        width = max(map(len, commands))
        for command, purpose in commands.items():
            answer(f"  {command:{width}}   {purpose}")


def show_configurations(conclusion: Conclusion) -> None:
    """Print configurations with mean and interval, the best first."""
    sweep = conclusion.study.sweep
    is_joint = any(
        summary.axis is None and not summary.is_baseline for summary in conclusion.summaries
    )
    # Several values in one cell are hard to compare; a joint search gets a column for each.
    naming = list(sweep.space.names) if is_joint else ["configuration"]
    header = [*naming, f"mean {sweep.objective.metric}", "95 % interval", "seeds", "not complete"]
    rows = []
    for summary in conclusion.summaries[:MOST_ROWS]:
        values = [value_text(summary.config[name]) for name in naming] if is_joint else []
        rows.append([*(values or [conclusion.name(summary)]), *_row(summary)])
    shown = [
        index
        for index in range(len(header))
        if index <= len(naming) or any(row[index] for row in rows)
    ]
    answer_table(
        [header[index] for index in shown],
        [[row[index] for index in shown] for row in rows],
        numeric=range(len(naming) if not is_joint else 0, len(shown)),
    )
    hidden = len(conclusion.summaries) - MOST_ROWS
    if hidden > 0:
        answer(f"and {hidden} more; `hpo compare {conclusion.study.name} --json` has all")


def show_best(best: Best) -> None:
    """Print the winner, how it was chosen, and what the test split says."""
    study, winner = best.conclusion.study, best.winner
    metric = study.sweep.objective.metric
    answer_wrapped(f"winner of {study.name}: ", best.conclusion.name(winner))
    answer(
        f"  chosen by best mean {metric} over {winner.num_complete} seed(s):"
        f" {winner.mean:.4f}{_span(winner.interval)}"
    )
    answer_wrapped("  ", best.conclusion.verdict)
    for name in ("accuracy", "loss"):
        answer(f"  test {name}: {best.test.mean(name):.4f}{_span(best.test.interval(name))}")
    answer(
        "  the test split was read now, for the first time"
        if best.test.is_new
        else "  the test split was read before; these are the values of then"
    )
    values = ", ".join(
        f"{study.name}/{trial.number} {trial.value:.4f}"
        for trial in winner.trials
        if trial.value is not None
    )
    answer_wrapped("  replicates: ", values)


def show_bundle(bundle: Path) -> None:
    """Print what an exported bundle holds."""
    answer("")
    answer(f"exported to {bundle}:")
    answer_table(
        ["file", "size"],
        [[file.name, size(file.stat().st_size)] for file in sorted(bundle.iterdir())],
        numeric=[1],
    )


def _span(interval: Interval | None) -> str:
    return f", 95 % interval {interval.low:.4f} to {interval.high:.4f}" if interval else ""


def _row(summary: ConfigurationSummary) -> list[object]:
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
        f"{summary.mean:.4f}" if summary.mean is not None else None,
        f"{interval.low:.4f} to {interval.high:.4f}" if interval else None,
        summary.num_complete or None,
        ", ".join(ended_early),
    ]


def _num_open(summary: ConfigurationSummary) -> int:
    return sum(not trial.state.is_finished for trial in summary.trials)
