"""What differs between trials: settings, code, data, environment, results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpo.domain.attempt import Environment
from hpo.domain.study import Study
from hpo.domain.trial import Trial
from hpo.search.seeds import trial_seeds
from hpo.storage.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Trials side by side."""

    names: tuple[str, ...]
    """Their IDs."""
    sections: Mapping[str, Mapping[str, tuple[str, ...]]]
    """`settings`, `surroundings`, `results`: rows of one cell for each trial. In the first two
    only what differs."""


def compare_trials(pairs: Sequence[tuple[Study, Trial]], ledger: Ledger) -> Compared:
    """Put trials, also of different studies, side by side."""
    environments = [_environment(study, trial, ledger) for study, trial in pairs]
    return Compared(
        names=tuple(f"{study.name}/{trial.number}" for study, trial in pairs),
        sections={
            "settings": _differing([_settings(study, trial) for study, trial in pairs]),
            "surroundings": _differing(environments),
            "results": _rows([_results(study, trial) for study, trial in pairs]),
        },
    )


def _settings(study: Study, trial: Trial) -> dict[str, object]:
    plan = trial.plan
    seeds = trial_seeds(study.sweep.seed, plan.replicate)
    return {**plan.config, **{f"seed {stream}": seed for stream, seed in seeds.items()}}


def _environment(study: Study, trial: Trial, ledger: Ledger) -> dict[str, object]:
    attempts = ledger.attempts(study.uid, trial.number)
    if not attempts:
        return {}
    attempt, environment = attempts[-1], attempts[-1].environment
    return {
        "device": attempt.device,
        "threads": attempt.num_threads,
        "code": environment.code_digest[:12],
        "git revision": _revision(environment),
        "data": environment.data_fingerprint[:12],
        **environment.machine,
        **{f"version {name}": version for name, version in environment.versions.items()},
    }


def _revision(environment: Environment) -> str:
    dirty = " with changes" if environment.git_is_dirty else ""
    return f"{(environment.git_revision or 'none')[:12]}{dirty}"


def _results(study: Study, trial: Trial) -> dict[str, object]:
    best = study.sweep.objective.select(trial.measurements)
    metrics = best.metrics if best else {}
    return {
        "state": trial.state.value,
        "reason": trial.reason,
        "epochs": trial.num_epochs,
        "best epoch": trial.best_epoch,
        **{name: f"{value:.4g}" for name, value in metrics.items()},
    }


def _differing(columns: Sequence[Mapping[str, object]]) -> dict[str, tuple[str, ...]]:
    return {name: row for name, row in _rows(columns).items() if len(set(row)) > 1}


def _rows(columns: Sequence[Mapping[str, object]]) -> dict[str, tuple[str, ...]]:
    names = dict.fromkeys(name for column in columns for name in column)
    rows = {}
    for name in names:
        values = (column.get(name) for column in columns)
        rows[name] = tuple("" if value is None else str(value) for value in values)
    return {name: row for name, row in rows.items() if any(row)}
