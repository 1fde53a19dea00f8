"""`hpo reproduce`: train a trial again and compare."""

import sys

import click

from hpo.cli.options import home_option, json_option
from hpo.study.home import Home


@click.command()
@click.argument("trial")
@click.option(
    "--current-code", "is_current_code", is_flag=True, help="Run today's code, not the stored."
)
@home_option
@json_option
def command(
    trial: str,
    is_current_code: bool,  # noqa: FBT001
    home: Home,
    is_json: bool,  # noqa: FBT001
) -> None:
    """Train TRIAL again in a fresh process and compare every epoch and the weights.

    Exit code 0 means identical, 5 that something differs.
    """
    from rich.console import Console
    from rich.progress import Progress

    from hpo.cli.output import answer, answer_json
    from hpo.errors import ReproductionError
    from hpo.study import archive
    from hpo.study.reproduce import reproduce

    ledger = archive.open_ledger(home)
    study, found = archive.find_trial(ledger, trial)
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(f"training {trial} again", total=found.num_epochs)
        result = reproduce(
            study,
            found,
            home=home,
            ledger=ledger,
            is_current_code=is_current_code,
            on_epoch=lambda measurement: progress.update(task, completed=measurement.epoch),
        )
    if is_json:
        import dataclasses

        answer_json({"identical": result.is_identical, **dataclasses.asdict(result)})
    else:
        ran = "today's code" if is_current_code else "the stored code"
        verdict = "identical" if result.is_identical else "differs"
        answer(f"{trial}: {verdict}, {result.num_epochs} epochs, from {ran}")
        if result.difference is not None:
            where = f"epoch {result.difference.epoch}" if result.difference.epoch else "the end"
            answer(
                f"  first at {where}: {result.difference.what} was"
                f" {result.difference.recorded}, is {result.difference.reproduced}"
            )
            answer(
                f"  the largest relative difference of any metric is {result.largest_relative:.2g}"
            )
        for name in result.edited_files:
            answer(f"  code changed since: {name}")
        for line in result.surroundings:
            answer(f"  {line}")
    if not result.is_identical:
        raise ReproductionError(f"{trial} came out otherwise than recorded")
