"""What explains and reproduces a trial, as one document."""

from dataclasses import asdict
from typing import Any

from hpo.domain.attempt import Environment
from hpo.domain.sweep import Sweep
from hpo.domain.trial import PlannedTrial
from hpo.search.seeds import split_seed, trial_seeds


def lineage_of(sweep: Sweep, plan: PlannedTrial, environment: Environment) -> dict[str, Any]:
    """Return a trial's full configuration, seeds and surroundings as plain JSON."""
    return {
        "format_version": 1,
        "trial": f"{sweep.study}/{plan.number}",
        "config_id": plan.config_id,
        "config": dict(plan.config),
        "replicate": plan.replicate,
        "seeds": {
            "split": split_seed(sweep.seed),
            **trial_seeds(sweep.seed, plan.replicate),
        },
        "environment": asdict(environment),
    }
