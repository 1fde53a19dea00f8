"""`hpo init`: write a sweep file to begin with."""

import sys
from importlib import resources
from pathlib import Path
from string import Template

import click

from hpo.errors import UsageError

QUESTIONS: dict[str, tuple[str, str | int]] = {
    "data": ("image set", "digits"),
    "model": ("model", "simple_cnn"),
    "strategy": ("strategy", "one-at-a-time"),
    "epochs": ("epochs of a trial", 15),
    "replicates": ("seeds for each configuration", 3),
}
"""What is asked on a terminal when its option is not given, and what is taken elsewhere."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("sweep.yaml"))
@click.option("--data", help="Image set; digits without it.")
@click.option("--data-root", default="data", show_default=True, help="Folder of the image sets.")
@click.option("--download", is_flag=True, help="Fetch the data when it is not there.")
@click.option("--model", help="simple_cnn without it.")
@click.option("--strategy", help="one-at-a-time without it; tpe, random or grid.")
@click.option("--epochs", type=int, help="Of a trial; 15 without it.")
@click.option("--replicates", type=int, help="Seeds for each configuration; 3 without it.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def command(file: Path, force: bool, **given: str | int | bool | None) -> None:  # noqa: FBT001
    """Write a commented sweep to FILE (sweep.yaml) that runs as it is.

    On a terminal it asks for what no option gives.
    """
    from hpo.cli.output import note
    from hpo.sweepfile.sweep import parse_sweep
    from hpo.training.config import CLASSIFIER_SCHEMA

    if file.exists() and not force:
        raise UsageError(f"{file} exists; write --force to replace it, or name another file")
    values = {name: _answer(name, value) for name, value in given.items()}
    template = Template((resources.files("hpo.cli") / "templates/starter.yaml").read_text())
    text = template.substitute(values, study=file.stem)
    parse_sweep(text, file=str(file), task=CLASSIFIER_SCHEMA)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    note(f"wrote {file}; next: hpo plan {file}, then hpo run {file}")


def _answer(name: str, value: str | int | bool | None) -> str | int:  # noqa: FBT001
    if isinstance(value, bool):
        return str(value).lower()
    if value is not None:
        return value
    question, default = QUESTIONS[name]
    return click.prompt(question, default=default, err=True) if sys.stdin.isatty() else default
