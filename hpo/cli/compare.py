"""`hpo compare`: trials side by side, or the configurations of a study."""

import click

from hpo.cli.options import home_option, json_option
from hpo.errors import UsageError
from hpo.study.home import Home


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="STUDY | TRIAL TRIAL..")
@home_option
@json_option
def command(names: tuple[str, ...], home: Home, is_json: bool) -> None:  # noqa: FBT001
    """Compare the configurations of a STUDY, or two or more TRIALs."""
    from hpo.cli.output import answer, answer_json, answer_table
    from hpo.cli.tables import show_configurations
    from hpo.study import archive
    from hpo.study.comparison import compare_trials
    from hpo.study.conclusion import as_json, conclude

    ledger = archive.open_ledger(home)
    if len(names) == 1 and "/" not in names[0]:
        conclusion = conclude(archive.load(ledger, archive.find_row(ledger, names[0])))
        if is_json:
            answer_json(as_json(conclusion))
        else:
            show_configurations(conclusion)
        return
    if len(names) == 1:
        raise UsageError(f"{names[0]} alone compares with nothing; name a second trial")
    compared = compare_trials([archive.find_trial(ledger, name) for name in names], ledger)
    if is_json:
        answer_json({"trials": compared.names, **compared.sections})
        return
    for section, rows in compared.sections.items():
        answer(f"{section}{'' if rows or section == 'results' else ': all the same'}")
        if rows:
            answer_table(["", *compared.names], [[name, *row] for name, row in rows.items()])
