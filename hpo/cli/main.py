"""The `hpo` command. Verbs are declared here and imported only when they are used."""

import importlib
import sys
from typing import NoReturn

import click

from hpo.errors import HpoError, did_you_mean

VERBS: dict[str, str] = {
    "init": "Write a commented sweep file to begin with.",
    "validate": "Check a sweep file; train nothing.",
    "plan": "Show the trials of a sweep, and what they will take.",
    "data": "Look at the data of a sweep before training on it.",
    "lr-find": "Find a range of learning rates worth searching.",
    "run": "Run a sweep, or go on with it.",
    "resume": "Go on with a study that was interrupted.",
    "stop": "Ask a running study to stop after its running epochs.",
    "list": "List the studies of this home.",
    "status": "Show a study's trials, attempts and reasons.",
    "best": "Name the winner, test it once, export it.",
    "compare": "Compare trials, or the configurations of a study.",
    "reproduce": "Train a trial again from stored code and compare.",
    "evaluate": "Evaluate a trial's best checkpoint on a split.",
    "logs": "Print what a trial printed.",
    "ui": "Open the MLflow UI on this home.",
    "doctor": "Try everything that a study needs on this machine.",
    "delete": "Delete a study and everything of it.",
}
"""Every verb with its line of help. `hpo/cli/VERB.py` holds the command, named after it."""


class VerbGroup(click.Group):
    """A group that knows its verbs' help without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the verbs in the order a user meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a verb."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"hpo.cli.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; a misspelt one is answered with the nearest."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = did_you_mean(args[0], list(VERBS))
            raise click.UsageError(f"no such verb: {args[0]}{near}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the verbs without importing one."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


MODULES = {"list": "list_studies", "lr-find": "lr_find"}
"""Verbs whose name is no good name for a module."""


HELP = """Hyperparameter studies for PyTorch: tracked, pruned, reproducible by ID.

STUDY is a study's name, TRIAL is STUDY/NUMBER. Answers go to stdout, all else to stderr.

\b
hpo run sweeps/lr.yaml         run a study
hpo best --export              name, test and export its winner
hpo reproduce lr-digits/7      train a trial again and compare
"""


@click.group(
    cls=VerbGroup,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="hpo")
def cli() -> None:
    """Dispatch to a verb."""


def main() -> NoReturn:
    """Run the command line; every explained error becomes one line and its exit code."""
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.Exit as leaving:
        status = leaving.exit_code
    except click.exceptions.Abort:
        click.echo("aborted", err=True)
        status = 130
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except HpoError as error:
        click.echo(f"hpo: {error}", err=True)
        status = error.exit_code
    except KeyboardInterrupt:
        click.echo("hpo: interrupted", err=True)
        status = 130
    except BrokenPipeError:  # the reader of our output left, as `| head` does
        sys.stderr.close()
        status = 0
    except Exception as error:  # noqa: BLE001  # a traceback is no answer to a user
        click.echo(f"hpo: unexpected {_record(error)}", err=True)
        status = 1
    sys.exit(status if isinstance(status, int) else 0)


def _record(error: Exception) -> str:
    """Keep a traceback in a file and return one line about it."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="hpo-error-", suffix=".txt", delete=False
    ) as file:
        traceback.print_exception(error, file=file)
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    return f"{what}\n  this is a bug; please report it with {file.name}"


if __name__ == "__main__":
    main()
