"""Optuna's TPE over a given history: the one file of the search that runs an Optuna study."""

import contextlib
from collections.abc import Container, Iterator, Mapping

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, create_trial

from hpo.domain.objective import Direction
from hpo.domain.search_space import Params, Value
from hpo.domain.trial import TrialState
from hpo.search.observation import Observation


class Estimator:
    """Learns a history, then proposes: the same for the same history and seed."""

    def __init__(
        self,
        *,
        distributions: Mapping[str, BaseDistribution],
        direction: Direction,
        startup_trials: int,
    ) -> None:
        self._distributions = dict(distributions)
        self._direction = direction
        self._startup_trials = startup_trials
        self._history: list[FrozenTrial] = []

    def freeze(self, number: int, coordinates: Params, observation: Observation) -> FrozenTrial:
        """Return a configuration in Optuna's form.

        Args:
            number: of its first trial, which orders the history.
            coordinates: one for each distribution.
            observation: a value of COMPLETE; of PRUNED, the value at its last epoch. A divergence
                becomes PRUNED without a value, infeasible, which the estimator ranks last.
        """
        is_complete = observation.state is TrialState.COMPLETE
        values_by_epoch: dict[int, float] = {}
        if observation.state is TrialState.PRUNED and observation.value is not None:
            values_by_epoch[observation.epoch] = observation.value
        trial = create_trial(
            state=optuna.trial.TrialState[observation.state.value],
            value=observation.value if is_complete else None,
            params=dict(coordinates),
            distributions=self._distributions,
            intermediate_values=values_by_epoch,
            constraints={"diverged": 1.0} if observation.has_diverged else None,
        )
        trial.number = number + 1  # 0 is the number of the trial that is asked for
        return trial

    def learn(self, trial: FrozenTrial) -> None:
        """Add a configuration to the history; in the order of their numbers."""
        self._history.append(trial)

    def ask(self, seed: int) -> dict[str, Value]:
        """Return the coordinates to try next."""
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=self._startup_trials,
            multivariate=True,
            constant_liar=True,
            seed=seed % 2**32,  # NumPy's legacy generator takes no more
        )
        with _quiet():
            study = optuna.create_study(
                storage=_HistoryStorage(self._history),
                sampler=sampler,
                direction=self._direction.value,
            )
            return study.ask(fixed_distributions=self._distributions).params


class _HistoryStorage(InMemoryStorage):
    """Shows a history that it does not own; adding a thousand trials copies each for 50 us."""

    def __init__(self, history: list[FrozenTrial]) -> None:
        super().__init__()
        self._history = history

    def get_all_trials(
        self,
        study_id: int,  # noqa: ARG002  # there is one
        deepcopy: bool = True,  # noqa: ARG002, FBT001, FBT002  # Optuna's signature
        states: Container[optuna.trial.TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Return the history; the sampler only reads it."""
        return [trial for trial in self._history if states is None or trial.state in states]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Optuna from announcing a study that lives for milliseconds."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
