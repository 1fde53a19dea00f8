"""`hpo plan`: the trials of a sweep, and what they will take."""

from pathlib import Path

import click

from hpo.cli.options import file_argument, home_option, json_option, set_option
from hpo.study.home import Home


@click.command()
@file_argument
@set_option
@click.option("--no-timing", is_flag=True, help="Only list the trials; train nothing.")
@home_option
@json_option
def command(
    file: Path,
    overrides: tuple[str, ...],
    no_timing: bool,  # noqa: FBT001
    home: Home,
    is_json: bool,  # noqa: FBT001
) -> None:
    """List the trials of the sweep in FILE and estimate hours, disk and memory.

    The estimate comes from training the baseline for some seconds.
    """
    import dataclasses

    from hpo.cli.output import answer, answer_json, answer_table, duration, note, size
    from hpo.study.estimate import estimate, first_proposal
    from hpo.study.intake import read_sweep_file
    from hpo.study.naming import parameter_text, run_name

    sweep_file = read_sweep_file(file, overrides, None)
    sweep = sweep_file.sweep
    for warning in sweep_file.warnings:
        note(f"warning: {warning}")
    planned = first_proposal(sweep)
    expected = None if no_timing else estimate(sweep, home.create())
    if is_json:
        answer_json(
            {
                "study": sweep.study,
                "trials": [
                    {**dataclasses.asdict(plan), "config_id": plan.config_id} for plan in planned
                ],
                "estimate": dataclasses.asdict(expected) if expected else None,
            }
        )
        return
    answer_table(
        ["trial", "settings", "role", "replicate", "epochs"],
        [
            [
                plan.number,
                run_name(sweep, plan),
                plan.role.value,
                plan.replicate,
                plan.config.get("epochs"),
            ]
            for plan in planned
        ],
        numeric=[0, 3, 4],
    )
    total = max(len(planned), sweep.budget.num_trials or 0)
    if total > len(planned):
        answer(f"then {sweep.strategy.name} proposes up to {total - len(planned)} more over:")
        for parameter in sweep.space.parameters:
            answer(f"  {parameter.name}: {parameter_text(parameter)}")
    if expected is not None:
        answer("")
        answer(
            f"{expected.num_trials} trials, {expected.num_epochs} epochs, on"
            f" {expected.num_workers} worker(s), {expected.device}"
        )
        answer(
            f"at most {duration(expected.wall_s)}, at {expected.epoch_s:.3g} s an epoch of the"
            f" baseline; {size(expected.disk_bytes)} on disk, {size(expected.memory_bytes)} memory"
        )
