"""`hpo delete`: remove a study and everything of it."""

import click

from hpo.cli.options import home_option, study_argument
from hpo.study.home import Home


@click.command()
@study_argument(is_required=True)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@home_option
def command(study: str, is_sure: bool, home: Home) -> None:  # noqa: FBT001
    """Delete STUDY: its trials, checkpoints and logs. Its runs in MLflow stay."""
    from hpo.cli.output import note
    from hpo.study import archive
    from hpo.study.ownership import own_study
    from hpo.study.removal import remove

    ledger = archive.open_ledger(home)
    row = archive.find_row(ledger, study)
    if not is_sure:
        count = sum(row.counts.values())
        click.confirm(
            f"delete {study} with its {count} trials from {home.root}?", abort=True, err=True
        )
    with own_study(home, study, ledger):
        remove(ledger, row, home)
    note(f"{study} is deleted")
