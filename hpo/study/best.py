"""The winner of a study: which configuration, by what, and what the test split says of it."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from hpo.clock import Clock
from hpo.domain.study import Study
from hpo.domain.trial import Trial
from hpo.errors import HpoError
from hpo.execution.call import call
from hpo.execution.executor import Slot
from hpo.statistics.interval import Interval, mean_interval
from hpo.statistics.summary import ConfigurationSummary, median_replicate
from hpo.storage.ledger import Ledger
from hpo.study.compose import WORKER, open_executor, training_request
from hpo.study.conclusion import Conclusion, conclude
from hpo.study.export import ExportOrder, best_checkpoint, export_trial
from hpo.study.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """What the test split says of a configuration, read once."""

    scores: Mapping[int, Mapping[str, float]]
    """`loss` and `accuracy` by trial number."""
    is_new: bool
    """Whether the split was read now; an earlier reading is returned as it was."""

    __test__ = False  # not a test case, whatever its name looks like

    def mean(self, name: str) -> float:
        """Return the mean of a score over the replicates."""
        return fmean(scores[name] for scores in self.scores.values())

    def interval(self, name: str) -> Interval | None:
        """Return the 95 % interval of a score's mean, cut to what the score can be.

        None for one replicate.
        """
        interval = mean_interval([scores[name] for scores in self.scores.values()])
        if interval is None:
            return None
        highest = 1.0 if name == "accuracy" else math.inf
        return Interval(low=max(interval.low, 0.0), high=min(interval.high, highest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The winner of a study."""

    conclusion: Conclusion
    winner: ConfigurationSummary
    representative: Trial
    """The replicate of median value, whose checkpoint stands for the configuration."""
    test: TestResult


def find_best(study: Study, home: Home, ledger: Ledger, clock: Clock) -> Best:
    """Return the winner, reading the test split if that was not done before.

    Raises:
        HpoError: no configuration has all of its replicates COMPLETE.
    """
    conclusion = conclude(study)
    if conclusion.winner is None:
        raise HpoError(f"{study.name} has no winner yet: {conclusion.verdict}")
    representative = median_replicate(conclusion.winner)
    if representative is None:
        raise HpoError(f"{study.name} has no COMPLETE trial yet; go on with `hpo resume`")
    return Best(
        conclusion=conclusion,
        winner=conclusion.winner,
        representative=representative,
        test=_test_result(conclusion, conclusion.winner, home, ledger, clock),
    )


def _test_result(
    conclusion: Conclusion,
    winner: ConfigurationSummary,
    home: Home,
    ledger: Ledger,
    clock: Clock,
) -> TestResult:
    study = conclusion.study
    stored = ledger.test_result(study.uid, winner.config_id)
    known: dict[str, Any] = json.loads(stored) if stored else {}
    unread = tuple(trial for trial in winner.trials if str(trial.number) not in known)
    if unread:  # all of them, or the replicates that an extension has added
        known |= _evaluate(study, unread, home)
        ledger.store_test_result(
            study.uid, winner.config_id, json.dumps(known), clock.now().isoformat()
        )
    return TestResult(
        scores={trial.number: known[str(trial.number)] for trial in winner.trials},
        is_new=bool(unread),
    )


def _evaluate(study: Study, trials: Sequence[Trial], home: Home) -> dict[str, Any]:
    with open_executor(study.sweep.execution) as executor:
        slot = executor.slots[0]
        items = [_item(home, study, trial, slot) for trial in trials]
        payload = {"home": str(home.root), "split": "test", "items": items}
        return call(executor, f"{WORKER}:evaluate", payload, home.log)


def _item(home: Home, study: Study, trial: Trial, slot: Slot) -> dict[str, Any]:
    checkpoint = best_checkpoint(study, trial)
    return {
        "number": trial.number,
        "uri": checkpoint.uri,
        "sha256": checkpoint.sha256,
        "request": training_request(home, study.sweep, trial, slot),
    }


def export_best(
    best: Best, destination: Path, *, home: Home, ledger: Ledger, clock: Clock
) -> Path:
    """Export the winner's representative as a bundle and return its folder.

    Raises:
        ExportError: the export is not equal to the checkpoint, or cannot be written.
    """
    order = ExportOrder(
        study=best.conclusion.study,
        trial=best.representative,
        facts=best_json(best),
        destination=destination,
    )
    with open_executor(best.conclusion.study.sweep.execution) as executor:
        return export_trial(order, home=home, ledger=ledger, executor=executor, clock=clock)


def best_json(best: Best) -> dict[str, Any]:
    """Return the winner for machines, and for the manifest of its bundle."""
    study, winner = best.conclusion.study, best.winner
    return {
        "study": study.name,
        "objective": study.sweep.objective.metric,
        "winner": best.conclusion.name(winner),
        "params": dict(winner.params),
        "config_id": winner.config_id,
        "mean": winner.mean,
        "interval": _ends(winner.interval),
        "values": {f"{study.name}/{trial.number}": trial.value for trial in winner.trials},
        "chosen_by": f"best mean {study.sweep.objective.metric} over {winner.num_complete} seeds",
        "verdict": best.conclusion.verdict,
        "representative": f"{study.name}/{best.representative.number}",
        "test": {
            name: {"mean": best.test.mean(name), "interval": _ends(best.test.interval(name))}
            for name in ("loss", "accuracy")
        },
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return [interval.low, interval.high] if interval else None
