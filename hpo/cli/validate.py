"""`hpo validate`: every check, no training."""

from pathlib import Path

import click

from hpo.cli.options import file_argument, json_option, set_option


@click.command()
@file_argument
@set_option
@json_option
def command(file: Path, overrides: tuple[str, ...], is_json: bool) -> None:  # noqa: FBT001
    """Check the sweep in FILE without training anything."""
    from hpo.cli.output import answer, answer_json, note
    from hpo.study.intake import read_sweep_file
    from hpo.sweepfile.dump import dump_sweep

    sweep_file = read_sweep_file(file, overrides, None)
    for warning in sweep_file.warnings:
        note(f"warning: {warning}")
    if is_json:
        answer_json(dump_sweep(sweep_file.sweep))
        return
    sweep = sweep_file.sweep
    answer(
        f"{file} is valid: study {sweep.study}, {sweep.strategy.name} over"
        f" {', '.join(sweep.space.names)}, {sweep.replicates} replicate(s)"
    )
