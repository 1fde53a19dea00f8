"""Options and arguments that several verbs share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hpo.study.home import Home

Function = TypeVar("Function", bound=Callable[..., Any])


def _as_home(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> Home:
    return Home.open(value)


def home_option(function: Function) -> Function:
    """Add `--home`."""
    return click.option(
        "--home",
        type=click.Path(path_type=Path, file_okay=False),
        callback=_as_home,
        help="Where studies are kept; HPO_HOME, or ./runs, without it.",
    )(function)


def json_option(function: Function) -> Function:
    """Add `--json`."""
    return click.option(
        "--json", "is_json", is_flag=True, help="Print the answer as JSON on stdout."
    )(function)


def file_argument(function: Function) -> Function:
    """Add the argument FILE: a sweep file."""
    return click.argument("file", type=click.Path(path_type=Path))(function)


def set_option(function: Function) -> Function:
    """Add `--set key=value`."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change a key of the file, such as epochs=2 or budget.trials=5. May be repeated.",
    )(function)


def complete_study(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Complete a study's name for the shell."""
    from hpo.study.archive import open_ledger

    home = Home.open(context.params.get("home"))
    if not home.exists:
        return []
    return [row.name for row in open_ledger(home).studies() if row.name.startswith(incomplete)]


def study_argument(*, is_required: bool) -> Callable[[Function], Function]:
    """Add the argument STUDY."""
    return click.argument("study", required=is_required, shell_complete=complete_study)
