"""What `run` and `resume` do with a study once they know which."""

from hpo.cli.output import answer_json, note
from hpo.cli.progress import RunView
from hpo.cli.tables import show_conclusion
from hpo.clock import SystemClock
from hpo.domain.study import Study, StudyState
from hpo.errors import FailureBudgetError, InterruptedStudyError
from hpo.storage.ledger import Ledger, StudyRow
from hpo.study import archive
from hpo.study.compose import conduct, is_spent
from hpo.study.conclusion import as_json, conclude
from hpo.study.home import Home
from hpo.study.preflight import PreflightFailedError
from hpo.study.removal import remove


def conduct_and_conclude(
    row: StudyRow, home: Home, ledger: Ledger, *, is_json: bool, is_preflighting: bool = False
) -> None:
    """Run a study to its end, print its conclusion, and raise what its end means.

    Raises:
        PreflightFailedError: it was tried first and does not train; a study without trials is
            removed, so that the mended file can be run.
        InterruptedStudyError: it was interrupted and can be resumed.
        FailureBudgetError: too many of its trials failed.
    """
    if is_spent(row, ledger):
        study = archive.load(ledger, row)
        note(f"{row.name} is finished; every trial of it has ended")
    else:
        with RunView(archive.sweep_of(row), ledger.trials(row.uid)) as view:
            try:
                study = conduct(
                    row,
                    home=home,
                    ledger=ledger,
                    clock=SystemClock(),
                    view=view,
                    is_preflighting=is_preflighting,
                )
            except PreflightFailedError:
                if not ledger.trials(row.uid):
                    remove(ledger, row, home)
                raise
    conclusion = conclude(study)
    if is_json:
        answer_json(as_json(conclusion))
    else:
        show_conclusion(conclusion)
    _raise_for(study)


def _raise_for(study: Study) -> None:
    if study.state is StudyState.STOPPED:
        raise InterruptedStudyError(
            f"{study.name} stopped before its end; go on with `hpo resume {study.name}`"
        )
    if study.state is StudyState.FAILED:
        raise FailureBudgetError(
            f"every trial of {study.name} failed; see `hpo status {study.name}`"
        )
