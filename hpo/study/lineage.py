"""What explains and reproduces a trial, as one document."""

from hpo.domain.attempt import Environment
from hpo.domain.sweep import Sweep
from hpo.domain.trial import PlannedTrial, TrialId
from hpo.search.seeds import split_seed, trial_seeds
from tracking.lineage import Lineage


def recorded_seeds(sweep: Sweep, plan: PlannedTrial) -> dict[str, int]:
    """Return the seed of every stream of a trial, the split's among them."""
    return {"split": split_seed(sweep.seed), **trial_seeds(sweep.seed, plan.replicate)}


def lineage_of(
    sweep: Sweep, plan: PlannedTrial, environment: Environment, device: str, num_threads: int
) -> Lineage:
    """Return a trial's full configuration, seeds and surroundings."""
    return Lineage(
        run_key=str(TrialId(study=sweep.study, number=plan.number)),
        config=dict(plan.config),
        source_digest=environment.code_digest,
        data_digest=environment.data_fingerprint,
        seeds=recorded_seeds(sweep, plan),
        packages=environment.versions,
        machine=environment.machine,
        settings={"device": device, "num_threads": num_threads},
        git_revision=environment.git_revision,
        is_git_dirty=environment.git_is_dirty,
    )
