"""`hpo logs`: what a trial printed."""

import click

from hpo.cli.options import home_option
from hpo.study.home import Home


@click.command()
@click.argument("trial")
@home_option
def command(trial: str, home: Home) -> None:
    """Print what every attempt at TRIAL wrote to stdout and stderr."""
    from hpo.cli.output import answer, note
    from hpo.study import archive

    study, found = archive.find_trial(archive.open_ledger(home), trial)
    for attempt in range(1, found.num_attempts + 1):
        path = home.attempt_log(study.name, found.number, attempt)
        note(f"--- attempt {attempt}: {path}")
        if path.exists() and path.stat().st_size:
            answer(path.read_text(errors="replace").rstrip("\n"))
    if not found.num_attempts:
        note(f"{trial} has not run yet")
