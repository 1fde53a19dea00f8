"""`hpo run`: run a sweep, or go on with it."""

from pathlib import Path

import click

from hpo.cli.options import file_argument, home_option, json_option, set_option
from hpo.study.home import Home


@click.command()
@file_argument
@set_option
@click.option("--extend", "is_extending", is_flag=True, help="Go on with a larger sweep.")
@click.option("--new-name", metavar="NAME", help="Run it as another study.")
@home_option
@json_option
def command(  # one parameter for each option
    file: Path,
    overrides: tuple[str, ...],
    is_extending: bool,  # noqa: FBT001
    new_name: str | None,
    home: Home,
    is_json: bool,  # noqa: FBT001
) -> None:
    """Run the sweep in FILE. A study of the same file that is not finished goes on."""
    from hpo.cli.conducting import conduct_and_conclude
    from hpo.cli.output import note
    from hpo.clock import SystemClock
    from hpo.storage.sql_ledger import SqlLedger
    from hpo.study.intake import read_sweep_file, settle
    from hpo.study.ownership import own_study

    sweep_file = read_sweep_file(file, overrides, new_name)
    for warning in sweep_file.warnings:
        note(f"warning: {warning}")
    study = sweep_file.sweep.study
    home.create()
    ledger = SqlLedger(home.ledger_url)
    with own_study(home, study, ledger):
        row, was_there = settle(ledger, sweep_file, file, SystemClock(), is_extending=is_extending)
        note(f"{'going on with' if was_there else 'new study'} {study} in {home.root}")
        conduct_and_conclude(row, home, ledger, is_json=is_json)
