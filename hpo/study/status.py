"""Where a study stands, also when the process that ran it died without a word."""

from hpo.domain.study import StudyState
from hpo.storage.ledger import Ledger, StudyRow
from hpo.study.home import Home
from hpo.study.ownership import owner_of_study


def standing(row: StudyRow, home: Home, ledger: Ledger) -> str:
    """Return the state for people: `running` only while a living process conducts it."""
    if row.state is not StudyState.RUNNING:
        return row.state.value
    is_owned = owner_of_study(home, row.name, ledger) is not None
    return row.state.value if is_owned else "interrupted"
