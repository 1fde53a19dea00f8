"""`hpo init`: write a sweep file to begin with."""

from importlib import resources
from pathlib import Path
from string import Template

import click

from hpo.errors import UsageError


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("sweep.yaml"))
@click.option("--data", prompt="image set", default="digits", show_default=True)
@click.option("--data-root", default="data", show_default=True, help="Folder of the image sets.")
@click.option("--download", is_flag=True, help="Fetch the data when it is not there.")
@click.option("--model", prompt="model", default="simple_cnn", show_default=True)
@click.option(
    "--strategy",
    type=click.Choice(["one-at-a-time", "tpe", "random", "grid"]),
    prompt="strategy",
    default="one-at-a-time",
    show_default=True,
)
@click.option("--epochs", prompt="epochs of a trial", default=15, show_default=True)
@click.option("--replicates", prompt="seeds for each configuration", default=3, show_default=True)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def command(file: Path, force: bool, **answers: str | int | bool) -> None:  # noqa: FBT001
    """Write a commented sweep to FILE (sweep.yaml) that runs as it is.

    On a terminal it asks a few questions; each is also an option.
    """
    from hpo.cli.output import note
    from hpo.sweepfile.sweep import parse_sweep
    from hpo.training.config import CLASSIFIER_SCHEMA

    if file.exists() and not force:
        raise UsageError(f"{file} exists; write --force to replace it, or name another file")
    template = Template((resources.files("hpo.cli") / "templates/starter.yaml").read_text())
    values = {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in answers.items()
    }
    text = template.substitute(values, study=file.stem)
    parse_sweep(text, file=str(file), task=CLASSIFIER_SCHEMA)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    note(f"wrote {file}; next: hpo plan {file}, then hpo run {file}")
