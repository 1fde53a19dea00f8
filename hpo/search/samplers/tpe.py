"""TPE: proposes where good configurations are denser than the others.

Optuna's estimator, asked afresh for every proposal against a study in memory that holds the whole
history, so that nothing but the history decides.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hpo.domain.search_space import Params, Value
from hpo.domain.sweep import Sweep, Tpe
from hpo.domain.trial import PlannedTrial, Trial, TrialState
from hpo.search.dimension import Dimension
from hpo.search.observation import Observation, observe
from hpo.search.plan import Candidate, Plan, opening
from hpo.search.point import num_values, value_at
from hpo.search.samplers.random import next_random
from hpo.search.seeds import derive_seed

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

NUM_REDRAWS = 8
"""Askings with another seed before a random unseen point: each costs milliseconds."""


class TpeSampler:
    """Optuna's multivariate TPE over the configurations of the study.

    One configuration is one observation, its value the mean over its replicates. Waiting and
    running ones count among the poor ("constant liar"), so that workers spread out. A diverged one
    is shown as pruned with a violated constraint: the estimator ignores failures, and would go on
    proposing what diverges.

    Source: Bergstra et al., Algorithms for Hyper-Parameter Optimization, NeurIPS 2011; Watanabe,
    Tree-Structured Parzen Estimator, arXiv:2304.11127, for the multivariate form.
    Differs: no exact duplicates; the random start is that of random search with the same seed;
    values of continuous ranges have six digits.
    """

    def __init__(self, sweep: Sweep, options: Tpe) -> None:
        self._sweep = sweep
        self._options = options
        # A parameter with one value cannot be modelled; `_single_values` sets it.
        self._dimensions = {
            parameter.name: Dimension(parameter=parameter)
            for parameter in sweep.space.parameters
            if num_values(parameter) != 1
        }
        # Memory that changes no answer: a configuration's coordinates never change, and its
        # Optuna form only with its observation.
        self._coordinates: dict[str, dict[str, Value] | None] = {}
        self._frozen: dict[str, tuple[Observation, FrozenTrial]] = {}

    def propose(self, history: Sequence[Trial]) -> tuple[PlannedTrial, ...]:
        """Return the next configuration."""
        plan = Plan(self._sweep, history)
        for candidate in itertools.chain(plan.unfinished(), opening(self._sweep)):
            if trials := plan.add(candidate):
                return trials
        if plan.is_full:
            return ()
        config = self._next_config(plan, history)
        return plan.add(Candidate(config=config)) if config is not None else ()

    def _next_config(self, plan: Plan, history: Sequence[Trial]) -> Params | None:
        observations = self._observations(history)
        num_known = sum(
            observation.state is not TrialState.RUNNING for _, observation in observations
        )
        if num_known >= self._options.startup_trials and self._dimensions:
            for config in self._asked_configs(plan.next_number, observations):
                if not plan.holds(config):
                    return config
        return next_random(self._sweep, plan)

    def _observations(self, history: Sequence[Trial]) -> list[tuple[Trial, Observation]]:
        """Return each configuration that the model can place, by its first trial."""
        groups: dict[str, list[Trial]] = {}
        for trial in history:
            groups.setdefault(trial.plan.config_id, []).append(trial)
        observations = []
        for config_id, trials in groups.items():
            if config_id not in self._coordinates:
                self._coordinates[config_id] = self._encode(trials[0].plan.config)
            if self._coordinates[config_id] is None:
                continue
            observation = observe(trials)
            if observation is not None:
                observations.append((trials[0], observation))
        return observations

    def _encode(self, config: Params) -> dict[str, Value] | None:
        """Return a configuration's coordinates, or None when it lies outside the space."""
        names = self._sweep.space.names
        if any(
            name not in names and config.get(name) != value
            for name, value in self._sweep.baseline.items()
        ):
            return None
        coordinates: dict[str, Value] = {}
        for name, dimension in self._dimensions.items():
            coordinate = dimension.encode(config[name]) if name in config else None
            if coordinate is None:
                return None
            coordinates[name] = coordinate
        return coordinates

    def _asked_configs(
        self, number: int, observations: Sequence[tuple[Trial, Observation]]
    ) -> Iterator[Params]:
        """Yield what the estimator proposes under one seed after another.

        Args:
            number: of the trial to propose, from which the seeds derive.
            observations: what the estimator learns from.
        """
        from hpo.search.estimator import Estimator  # noqa: PLC0415  # imports Optuna

        estimator = Estimator(
            distributions={name: d.distribution() for name, d in self._dimensions.items()},
            direction=self._sweep.objective.direction,
            startup_trials=self._options.startup_trials,
        )
        for trial, observation in observations:
            config_id = trial.plan.config_id
            known = self._frozen.get(config_id)
            if known is None or known[0] != observation:
                coordinates = self._coordinates[config_id] or {}
                frozen = estimator.freeze(trial.number, coordinates, observation)
                known = self._frozen[config_id] = (observation, frozen)
            estimator.learn(known[1])
        for salt in range(NUM_REDRAWS):
            coordinates = estimator.ask(derive_seed(self._sweep.seed, number, f"tpe/{salt}"))
            yield {**self._sweep.baseline, **self._single_values(), **self._decode(coordinates)}

    def _single_values(self) -> Params:
        return {
            parameter.name: value_at(parameter, 0)
            for parameter in self._sweep.space.parameters
            if parameter.name not in self._dimensions
        }

    def _decode(self, coordinates: Params) -> Params:
        return {
            name: dimension.decode(coordinates[name])
            for name, dimension in self._dimensions.items()
        }
