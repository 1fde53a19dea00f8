"""`hpo stop`: ask a running study to stop."""

import click

from hpo.cli.options import home_option, study_argument
from hpo.study.home import Home


@click.command()
@study_argument(is_required=True)
@home_option
def command(study: str, home: Home) -> None:
    """Ask STUDY to stop after its running epochs, keeping checkpoints."""
    from hpo.cli.output import note
    from hpo.clock import SystemClock
    from hpo.study import archive
    from hpo.study.ownership import owner_of_study

    ledger = archive.open_ledger(home)
    row = archive.find_row(ledger, study)
    owner = owner_of_study(home, row.name, ledger)
    if owner is None:
        note(f"{study} is not running")
        return
    ledger.request_stop(row.uid, SystemClock().now().isoformat())
    note(f"{study} stops after its running epochs; process {owner} will tell")
