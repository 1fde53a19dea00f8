"""`hpo best`: the winner, tested once, exported on request."""

from pathlib import Path

import click

from hpo.cli.options import home_option, json_option, study_argument
from hpo.errors import HpoError
from hpo.study.home import Home


@click.command()
@study_argument(is_required=False)
@click.option("--export", "is_exporting", is_flag=True, help="Write the winner as a bundle.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to write it; ./STUDY-best without it."
)
@home_option
@json_option
def command(
    study: str | None,
    is_exporting: bool,  # noqa: FBT001
    out: Path | None,
    home: Home,
    is_json: bool,  # noqa: FBT001
) -> None:
    """Name the winner of STUDY, or of the study that ended last.

    The winner is the configuration with the best mean over its replicates. The test split is read
    once, for the winner; asking again shows what was read then.
    """
    from hpo.cli.output import answer_json, note
    from hpo.cli.tables import show_best, show_bundle
    from hpo.clock import SystemClock
    from hpo.study import archive
    from hpo.study.best import best_json, export_best, find_best
    from hpo.study.export import default_destination
    from hpo.study.status import standing

    ledger = archive.open_ledger(home)
    row = archive.find_row(ledger, study)
    if standing(row, home, ledger) == "running":
        raise HpoError(
            f"{row.name} is still running, and the test split is read once, for its winner; see"
            f" `hpo compare {row.name}` for the standing so far"
        )
    loaded = archive.load(ledger, row)
    best = find_best(loaded, home, ledger, SystemClock())
    document = best_json(best)
    if is_json and not is_exporting:
        answer_json(document)
        return
    if not is_json:
        show_best(best)
    if not is_exporting:
        return
    destination = out or default_destination(loaded.name)
    number = best.representative.number
    note(f"exporting {loaded.name}/{number}, the winner's replicate of median value")
    bundle = export_best(best, destination, home=home, ledger=ledger, clock=SystemClock())
    if is_json:
        answer_json({**document, "bundle": str(bundle)})
    else:
        show_bundle(bundle)
