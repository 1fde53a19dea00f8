"""Where a study stands, also when the process that ran it died without a word."""

from hpo.domain.study import StudyState
from hpo.storage.ledger import StudyRow
from hpo.study.home import Home
from hpo.study.ownership import owner_of


def standing(row: StudyRow, home: Home) -> str:
    """Return the state for people: `running` only while a living process conducts it."""
    if row.state is StudyState.RUNNING and owner_of(home.owner_lock(row.name)) is None:
        return "interrupted"
    return row.state.value
