"""Finding studies and trials by their names, and reading them back."""

import difflib
import json

from hpo.domain.study import Study
from hpo.domain.sweep import Sweep
from hpo.domain.trial import Trial, TrialId
from hpo.errors import NotFoundError
from hpo.storage.ledger import Ledger, StudyRow
from hpo.storage.sql_ledger import SqlLedger
from hpo.study.home import Home
from hpo.sweepfile.dump import dump_sweep
from hpo.sweepfile.sweep import parse_sweep


def open_ledger(home: Home) -> SqlLedger:
    """Open the ledger of a home that has one.

    Raises:
        NotFoundError: nothing was ever run there.
    """
    if not home.exists:
        raise NotFoundError(
            f"no study is kept in {home.root}; run one with `hpo run FILE`, or name its home with"
            " --home DIR"
        )
    return SqlLedger(home.ledger_url)


def find_row(ledger: Ledger, name: str | None) -> StudyRow:
    """Return a study by name, or the one that ended last when no name is given.

    Raises:
        NotFoundError: there is none; the text gives near names.
    """
    rows = ledger.studies()
    if not rows:
        raise NotFoundError("no study is kept here yet; run one with `hpo run FILE`")
    if name is None:
        return max(rows, key=lambda row: (row.ended_at or "", row.created_at))
    for row in rows:
        if row.name == name:
            return row
    near = difflib.get_close_matches(name, [row.name for row in rows], n=3, cutoff=0.4)
    there = near or [row.name for row in rows[-5:]]
    raise NotFoundError(f"no study is named {name}; there are: {', '.join(there)}")


def sweep_of(row: StudyRow) -> Sweep:
    """Return the sweep that a study was created from."""
    return parse_sweep(row.document, file=row.name, task=None)


def load(ledger: Ledger, row: StudyRow) -> Study:
    """Read a study with its trials."""
    return Study(
        uid=row.uid,
        sweep=sweep_of(row),
        state=row.state,
        created_at=row.created_at,
        ended_at=row.ended_at,
        running_s=row.running_s,
        trials=ledger.trials(row.uid),
    )


def find_trial(ledger: Ledger, text: str) -> tuple[Study, Trial]:
    """Return a trial by its ID `study/number`.

    Raises:
        NotFoundError: there is no such trial; the text gives near ones.
    """
    try:
        trial_id = TrialId.parse(text)
    except ValueError as error:
        raise NotFoundError(str(error)) from error
    study = load(ledger, find_row(ledger, trial_id.study))
    if trial_id.number >= len(study.trials):
        raise NotFoundError(
            f"{study.name} has no trial {trial_id.number}; its trials are {study.name}/0 to"
            f" {study.name}/{len(study.trials) - 1}"
        )
    return study, study.trials[trial_id.number]


def document_of(sweep: Sweep) -> str:
    """Return the stored form of a sweep: the complete sweep file as JSON."""
    return json.dumps(dump_sweep(sweep))
