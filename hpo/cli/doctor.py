"""`hpo doctor`: is everything here that a study needs, and does it work?"""

from pathlib import Path

import click

from hpo.cli.options import home_option, json_option, set_option
from hpo.study.home import Home


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@set_option
@home_option
@json_option
def command(
    file: Path | None,
    overrides: tuple[str, ...],
    home: Home,
    is_json: bool,  # noqa: FBT001
) -> None:
    """Try everything that a study needs on this machine; nothing of the home is changed.

    With FILE, the baseline of that sweep is trained for two epochs, to see whether its data comes
    as fast as its model takes it. Exit code 0 means that a study can run, 1 that it cannot.
    """
    import dataclasses

    from hpo.cli.output import answer, answer_json, answer_table, answer_wrapped, note
    from hpo.errors import HpoError
    from hpo.study.checkup import Verdict, check_up
    from hpo.study.intake import read_sweep_file

    sweep = read_sweep_file(file, overrides, None).sweep if file else None
    checks = []
    for check in check_up(home, sweep):
        checks.append(check)
        if not is_json:
            note(f"{check.name} ...")
    num_faults = sum(check.verdict is Verdict.FAULT for check in checks)
    if is_json:
        answer_json({"is_fit": not num_faults, "checks": list(map(dataclasses.asdict, checks))})
    else:
        answer_table(
            ["check", "", "found"],
            [[check.name, check.verdict, check.found] for check in checks],
        )
        for check in checks:
            if check.remedy:
                answer_wrapped(f"{check.name}: ", check.remedy)
        answer("")
        warnings = sum(check.verdict is Verdict.WARNING for check in checks)
        answer(
            f"{len(checks)} checks: {num_faults} fault(s), {warnings} warning(s);"
            f" a study {'cannot' if num_faults else 'can'} run here"
        )
    if num_faults:
        named = ", ".join(check.name for check in checks if check.verdict is Verdict.FAULT)
        raise HpoError(f"not fit for a study: {named}")
