"""Deleting a study, in an order that leaves nothing half there."""

import shutil

from hpo.storage.ledger import Ledger, StudyRow
from hpo.study.home import Home
from tracking.outbox import Outbox


def remove(ledger: Ledger, row: StudyRow, home: Home) -> None:
    """Delete a study from the ledger, then its files.

    The ledger goes first: files without a study are only litter, a study without files is broken.
    """
    ledger.delete_study(row.uid)
    shutil.rmtree(home.study(row.name), ignore_errors=True)
    if home.outbox.exists():
        outbox = Outbox(home.outbox)
        outbox.forget(row.uid)
        outbox.close()
