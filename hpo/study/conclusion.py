"""What a study says: its configurations by mean, the winner, and how far that can be believed."""

import math
from dataclasses import dataclass
from typing import Any

from hpo.domain.search_space import Choices, Parameter
from hpo.domain.study import Study
from hpo.domain.trial import TrialState
from hpo.statistics.summary import (
    ConfigurationSummary,
    baseline_of,
    runner_up,
    summarise,
    winner,
)
from hpo.statistics.verdict import verdict
from hpo.study.naming import configuration_name, params_text, value_text
from hpo.training.config import CLASSIFIER_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The answer of a study as it stands."""

    study: Study
    summaries: tuple[ConfigurationSummary, ...]
    """Every configuration, the best mean first, those without one last."""
    winner: ConfigurationSummary | None
    """The best of those whose replicates are all COMPLETE."""
    baseline: ConfigurationSummary | None
    verdict: str
    """In words, without claiming more than the seeds support."""

    def name(self, summary: ConfigurationSummary) -> str:
        """Return what distinguishes a configuration."""
        return configuration_name(self.study.sweep, summary.config, summary.role, summary.axis)


def conclude(study: Study) -> Conclusion:
    """Return what a study says now."""
    objective = study.sweep.objective
    summaries = summarise(study.trials, objective)
    best, baseline = winner(summaries), baseline_of(summaries)
    ordered = sorted(
        summaries,
        key=lambda summary: (
            not summary.is_comparable,
            summary.mean is None,
            objective.loss(summary.mean or 0.0),
        ),
    )
    return Conclusion(
        study=study,
        summaries=tuple(ordered),
        winner=best,
        baseline=baseline,
        verdict=verdict(best, baseline, runner_up(summaries)),
    )


TOLD = ("data", "model", "epochs", "batch_size", "optimizer", "lr", "weight_decay", "dropout")
"""Settings that are always told; of the others, those that differ from their defaults."""


def caveats(study: Study) -> str:
    """Return the fixed settings, which every conclusion holds for and no further."""
    sweep = study.sweep
    defaults = {name: key.default for name, key in CLASSIFIER_SCHEMA.keys.items()}
    fixed = {
        key: value
        for key, value in sweep.baseline.items()
        if key not in sweep.space.names and (key in TOLD or value != defaults.get(key))
    }
    return f"{params_text(fixed)}, all else at its default"


def remarks(conclusion: Conclusion) -> list[str]:
    """Return what weakens the conclusion and what to do about it.

    Source: Godbole et al., Deep Learning Tuning Playbook, 2023: before a study is trusted, check
    whether its best point is near an edge of the space.
    """
    winner = conclusion.winner
    found = []
    for parameter in conclusion.study.sweep.space.parameters if winner else ():
        value = winner.config.get(parameter.name) if winner else None
        if value is None or isinstance(value, bool | str):
            continue
        end = _end_of(parameter, value)
        # No dropout is the least dropout there is, and full strength the most.
        if end and value != 0 and (parameter.name, value) != ("augment", 1):
            found.append(
                f"{parameter.name}={value_text(value)} is at the {end} end of what was tried; the"
                f" best may lie beyond it, widen vary.{parameter.name}"
            )
    return found


NEAR_END = 0.02
"""Share of a range, logarithmic where it is, that counts as its end."""


def _end_of(parameter: Parameter, value: float) -> str:
    """Return `lower` or `upper` when a value is at an end of a parameter, else nothing."""
    if isinstance(parameter, Choices):
        low, high = min(parameter.values), max(parameter.values)
        position = {low: 0.0, high: 1.0}.get(value, 0.5) if len(parameter.values) > 2 else 0.5
    elif parameter.is_log:
        position = math.log(value / parameter.low) / math.log(parameter.high / parameter.low)
    else:
        position = (value - parameter.low) / (parameter.high - parameter.low)
    if position <= NEAR_END:
        return "lower"
    return "upper" if position >= 1 - NEAR_END else ""


def as_json(conclusion: Conclusion) -> dict[str, Any]:
    """Return the conclusion for machines."""
    study = conclusion.study
    return {
        "study": study.name,
        "state": study.state.value,
        "objective": study.sweep.objective.metric,
        "trials": {state.value: study.count(state) for state in TrialState},
        "winner": _summary_json(conclusion, conclusion.winner) if conclusion.winner else None,
        "verdict": conclusion.verdict,
        "remarks": remarks(conclusion),
        "configurations": [_summary_json(conclusion, summary) for summary in conclusion.summaries],
    }


def _summary_json(conclusion: Conclusion, summary: ConfigurationSummary) -> dict[str, Any]:
    interval = summary.interval
    return {
        "name": conclusion.name(summary),
        "config_id": summary.config_id,
        "role": summary.role.value,
        "axis": summary.axis,
        "params": dict(summary.params),
        "mean": summary.mean,
        "interval": [interval.low, interval.high] if interval else None,
        "values": {str(replicate): value for replicate, value in summary.values.items()},
        "complete": summary.num_complete,
        "pruned": summary.num_pruned,
        "failed": summary.num_failed,
        "trials": [f"{conclusion.study.name}/{trial.number}" for trial in summary.trials],
    }


def as_markdown(conclusion: Conclusion) -> str:
    """Return the conclusion as a note for the study's run in MLflow."""
    metric = conclusion.study.sweep.objective.metric
    lines = [
        conclusion.study.sweep.description,
        "",
        f"**{conclusion.verdict}**",
        "",
        f"| configuration | {metric} | 95 % interval | complete |",
        "|---|---|---|---|",
    ]
    for summary in conclusion.summaries[:20]:
        interval = summary.interval
        span = f"{interval.low:.4f} to {interval.high:.4f}" if interval else ""
        mean = f"{summary.mean:.4f}" if summary.mean is not None else ""
        done = f"{summary.num_complete} of {len(summary.trials)}"
        lines.append(f"| {conclusion.name(summary)} | {mean} | {span} | {done} |")
    lines += ["", f"Holds for: {caveats(conclusion.study)}"]
    return "\n".join(lines).strip()
