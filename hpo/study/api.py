"""The command line's main verbs for Python: `hpo.run(..)` and `hpo.load_study(..)`."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpo.clock import SystemClock
from hpo.domain.event import StudyEvent
from hpo.domain.study import Study
from hpo.domain.trial import Trial
from hpo.storage.sql_ledger import SqlLedger
from hpo.study import archive
from hpo.study.best import Best, find_best
from hpo.study.compose import conduct, is_spent
from hpo.study.conclusion import Conclusion, conclude
from hpo.study.home import Home
from hpo.study.intake import read_sweep_file, settle
from hpo.study.ownership import own_study


class LoadedStudy:
    """A study read from a home. Reads again at every call, so it can be watched while it runs."""

    def __init__(self, name: str | None, home: Home) -> None:
        """Find a study by name; the one that ended last when the name is None.

        Raises:
            NotFoundError: there is none.
        """
        self._home = home
        self._ledger = archive.open_ledger(home)
        self.name = archive.find_row(self._ledger, name).name

    def load(self) -> Study:
        """Return the study as it stands, with its trials."""
        return archive.load(self._ledger, archive.find_row(self._ledger, self.name))

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Every trial by number."""
        return self.load().trials

    def conclusion(self) -> Conclusion:
        """Return the configurations by mean, the winner, and how far it can be believed."""
        return conclude(self.load())

    def best(self) -> Best:
        """Return the winner, reading the test split if that was not done before.

        Raises:
            HpoError: no configuration has all of its replicates COMPLETE.
        """
        return find_best(self.load(), self._home, self._ledger, SystemClock())

    def trials_dataframe(self) -> Any:
        """Return a pandas DataFrame, a row for each trial: settings, state, value, metrics."""
        pandas = importlib.import_module("pandas")  # half a second, for notebooks only
        return pandas.DataFrame([_row(trial) for trial in self.trials]).set_index("number")

    def optuna_study(self) -> Any:
        """Return the `optuna.Study` that stock Optuna sees, for its plots and importances."""
        from hpo.storage.optuna_storage import open_optuna_study  # noqa: PLC0415  # 0.3 s

        return open_optuna_study(self._home.ledger_url, self.name)


def _row(trial: Trial) -> dict[str, Any]:
    last = trial.measurements[-1].metrics if trial.measurements else {}
    plan = trial.plan
    return {
        "number": trial.number,
        "state": trial.state.value,
        "value": trial.value,
        **{f"params_{name}": value for name, value in plan.params.items()},
        "role": plan.role.value,
        "axis": plan.axis,
        "replicate": plan.replicate,
        "config_id": plan.config_id,
        "best_epoch": trial.best_epoch,
        "epochs": trial.num_epochs,
        "reason": trial.reason,
        **{f"last_{name}": value for name, value in last.items()},
    }


def load_study(name: str | None = None, *, home: str | Path | None = None) -> LoadedStudy:
    """Return a study by name, or the one that ended last.

    Args:
        name: of the study.
        home: its folder; `HPO_HOME` or `./runs` without it.

    Raises:
        NotFoundError: there is none.
    """
    return LoadedStudy(name, Home.open(Path(home) if home is not None else None))


class Silence:
    """Shows nothing; fulfils `View`."""

    def say(self, text: str) -> None:
        """Drop it."""

    def take(self, event: StudyEvent) -> None:
        """Drop it."""


def run(
    file: str | Path, *, overrides: Sequence[str] = (), home: str | Path | None = None
) -> LoadedStudy:
    """Run a sweep, or go on with it, and return its study.

    Args:
        file: the sweep file.
        overrides: `key=value`, as for `--set`.
        home: where to keep it; `HPO_HOME` or `./runs` without it.

    Raises:
        UsageError: the file has problems, or a study of its name was made from another file.
        OwnedError: another process runs the study.
    """
    place = Home.open(Path(home) if home is not None else None)
    sweep_file = read_sweep_file(Path(file), overrides, None)
    name = sweep_file.sweep.study
    place.create()
    ledger = SqlLedger(place.ledger_url)
    with own_study(place, name, ledger):
        row, _ = settle(ledger, sweep_file, Path(file), SystemClock(), is_extending=False)
        if not is_spent(row, ledger):
            conduct(
                row,
                home=place,
                ledger=ledger,
                clock=SystemClock(),
                view=Silence(),
            )
    ledger.close()
    return load_study(name, home=place.root)
