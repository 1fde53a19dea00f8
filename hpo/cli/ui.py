"""`hpo ui`: the MLflow UI on this home."""

import click

from hpo.cli.options import home_option
from hpo.study.home import Home


@click.command()
@click.option("--port", default=5000, show_default=True, help="On this machine only.")
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@home_option
def command(port: int, no_open: bool, home: Home) -> None:  # noqa: FBT001
    """Serve the MLflow UI on this home until Ctrl-C, and open it in a browser."""
    from hpo.cli.output import note
    from hpo.clock import SystemClock
    from hpo.study.viewer import serve_mlflow

    serve_mlflow(home, port, SystemClock(), note, is_opening=not no_open)
