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
@click.option(
    "--no-preflight",
    "is_untried",
    is_flag=True,
    help="Do not try the baseline on 64 images first.",
)
@click.option(
    "--inline",
    "is_inline",
    is_flag=True,
    help="Train the baseline in this process, so that breakpoints work; record nothing.",
)
@click.option(
    "--debug",
    "is_debugging",
    is_flag=True,
    help="With --inline: stop at the first layer or gradient that is not finite.",
)
@home_option
@json_option
def command(
    file: Path, overrides: tuple[str, ...], new_name: str | None, home: Home, **flags: bool
) -> None:
    """Run the sweep in FILE. A study of the same file that is not finished goes on.

    Before the first trial, the baseline is tried on 64 images: shapes, gradients, learning,
    checkpoint, evaluation. What passed is not tried again until its configuration, code or data
    change.
    """
    from hpo.cli.conducting import conduct_and_conclude
    from hpo.cli.output import note
    from hpo.clock import SystemClock
    from hpo.errors import UsageError
    from hpo.storage.sql_ledger import SqlLedger
    from hpo.study.intake import read_sweep_file, settle
    from hpo.study.ownership import own_study

    if flags["is_debugging"] and not flags["is_inline"]:
        raise UsageError("--debug looks at one trial in this process; write --inline --debug")
    sweep_file = read_sweep_file(file, overrides, new_name)
    for warning in sweep_file.warnings:
        note(f"warning: {warning}")
    study = sweep_file.sweep.study
    home.create()
    if flags["is_inline"]:
        from hpo.study.inline import train_inline

        note(f"training the baseline of {study} in this process; nothing is recorded")
        is_debugging = flags["is_debugging"]
        train_inline(sweep_file.sweep, home, is_debugging=is_debugging, say=note)
        return
    ledger = SqlLedger(home.ledger_url)
    with own_study(home, study, ledger):
        row, was_there = settle(
            ledger, sweep_file, file, SystemClock(), is_extending=flags["is_extending"]
        )
        note(f"{'going on with' if was_there else 'new study'} {study} in {home.root}")
        conduct_and_conclude(
            row,
            home,
            ledger,
            is_json=flags["is_json"],
            is_preflighting=not flags["is_untried"],
        )
