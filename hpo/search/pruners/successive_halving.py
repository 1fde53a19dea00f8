"""Asynchronous successive halving: at each rung only the best fraction goes on."""

from collections.abc import Callable, Sequence

from hpo.domain.decision import CONTINUE, Action, Decision
from hpo.domain.objective import Objective
from hpo.domain.sweep import SuccessiveHalving
from hpo.domain.trial import Trial
from hpo.search.standing import Standings, is_worse, may_prune, phrase


class SuccessiveHalvingPruner:
    """Judges at epochs min_epochs, min_epochs * eta, min_epochs * eta**2, ...

    At a rung a trial goes on when fewer than 1/eta of the configurations measured there so far,
    itself among them, are better. With fewer than eta of them there is no fraction to be in, and
    it goes on. Equal values go on together.

    Source: Li et al., A System for Massively Parallel Hyperparameter Tuning (ASHA), MLSys 2020.
    Differs: the stopping form of it. Nobody is paused: a trial is judged once, on arrival, and
    either goes on or ends.
    """

    def __init__(self, options: SuccessiveHalving) -> None:
        self._ladder = Ladder(options.reduction_factor)
        self._first_rung = options.min_epochs

    def judge(self, trial: Trial, history: Sequence[Trial], objective: Objective) -> Decision:
        """Prune a trial that is outside the best fraction at a rung."""
        return self._ladder.judge(trial, history, objective, self._first_rung)


class Ladder:
    """Rungs, each `reduction_factor` times as far as the one before."""

    def __init__(self, reduction_factor: int) -> None:
        self._factor = reduction_factor
        self._standings = Standings()

    def judge(
        self,
        trial: Trial,
        history: Sequence[Trial],
        objective: Objective,
        first_rung: int,
        is_peer: Callable[[Trial], bool] = lambda _: True,
    ) -> Decision:
        """Decide at the trial's epoch, which is a rung or not.

        Args:
            trial: with the new measurement.
            history: every trial of the study.
            objective: what is compared.
            first_rung: in epochs.
            is_peer: tells which trials climb the same ladder.
        """
        epoch = trial.num_epochs
        if not self._is_rung(epoch, first_rung) or not may_prune(trial):
            return CONTINUE
        own = self._standings.own(trial, history, epoch, objective)
        if own is None:
            return CONTINUE
        peers = self._standings.peers(trial, history, epoch, objective, is_peer)
        num_measured = len(peers) + 1
        num_better = sum(is_worse(own.loss, peer.loss) for peer in peers)
        num_kept = num_measured // self._factor
        if num_kept == 0 or num_better < num_kept:
            return CONTINUE
        rest = "only the best goes on" if num_kept == 1 else f"only the best {num_kept} go on"
        return Decision(
            action=Action.PRUNE,
            reason=f"{phrase(own, objective)} is number {num_better + 1} of {num_measured}"
            f" at epoch {epoch}, where {rest}",
        )

    def _is_rung(self, epoch: int, first_rung: int) -> bool:
        rung = first_rung
        while rung < epoch:
            rung *= self._factor
        return rung == epoch
