"""`hpo resume`: go on with a study that was interrupted."""

import click

from hpo.cli.options import home_option, json_option, study_argument
from hpo.study.home import Home


@click.command()
@study_argument(is_required=False)
@home_option
@json_option
def command(study: str | None, home: Home, is_json: bool) -> None:  # noqa: FBT001
    """Go on with STUDY, or with the one that ended last, from its stored sweep."""
    from hpo.cli.conducting import conduct_and_conclude
    from hpo.cli.output import note
    from hpo.study import archive
    from hpo.study.ownership import own_study

    ledger = archive.open_ledger(home)
    name = archive.find_row(ledger, study).name
    with own_study(home, name, ledger):
        row = archive.find_row(ledger, name)  # as it stands now that nobody else can change it
        note(f"going on with {name} in {home.root}")
        conduct_and_conclude(row, home, ledger, is_json=is_json)
