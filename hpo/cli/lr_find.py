"""`hpo lr-find`: which learning rates are worth searching."""

from pathlib import Path

import click

from hpo.cli.options import file_argument, home_option, json_option, set_option
from hpo.study.home import Home


@click.command()
@file_argument
@set_option
@click.option(
    "--range",
    "ends",
    nargs=2,
    type=float,
    default=(1e-7, 10.0),
    metavar="LOW HIGH",
    help="First and last rate; 1e-7 and 10 without it.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=30),
    default=150,
    show_default=True,
    help="Updates between them.",
)
@home_option
@json_option
def command(
    file: Path,
    overrides: tuple[str, ...],
    ends: tuple[float, float],
    steps: int,
    home: Home,
    is_json: bool,  # noqa: FBT001
) -> None:
    """Train the baseline of FILE with a rising learning rate and suggest a range to vary.

    A range test (Smith 2017): some 150 updates, their loss against their rate. Nothing is kept.
    """
    import dataclasses

    from hpo.cli.output import answer, answer_json, answer_table, note
    from hpo.errors import UsageError
    from hpo.study.intake import read_sweep_file
    from hpo.study.rate_range import find_rates

    sweep_file = read_sweep_file(file, overrides, None)
    if not 0 < ends[0] < ends[1]:
        raise UsageError(f"--range is {ends[0]:g} {ends[1]:g}; write two rates above 0 that rise")
    note(f"training {sweep_file.sweep.baseline.get('model', 'the model')} at rising rates")
    found = find_rates(sweep_file.sweep, home.create(), ends, steps)
    if is_json:
        answer_json({**dataclasses.asdict(found), "vary": found.vary})
        return
    answer_table(["lr", "loss", ""], _rows(found.rates, found.smooth), numeric=[0, 1])
    answer("")
    answer(f"{len(found.losses)} updates on {found.device}; {found.remark}")
    if found.vary is None:
        answer("no rate lowered the loss; look at the data (`hpo data`) and at the model first")
        return
    answer(f"the loss begins to fall at {found.low:.2g}, falls fastest at {found.steepest:.2g},")
    answer(f"and is lowest at {found.high:.2g}; worth searching, to put under vary:")
    answer("")
    answer("vary:")
    answer(f"  {found.vary}")


def _rows(rates: list[float], losses: list[float]) -> list[list[str]]:
    """Return about 24 points of a curve, each with a bar between its least and largest loss."""
    if not losses:
        return []
    step = max(1, len(losses) // 24)
    shown = range(0, len(losses), step)
    least = min(losses)
    most = min(max(losses), 2 * losses[0])  # the end of a curve that breaks away would hide it
    width = 50
    rows = []
    for index in shown:
        share = (min(losses[index], most) - least) / ((most - least) or 1.0)
        rows.append(
            [f"{rates[index]:.1e}", f"{losses[index]:.3g}", "█" * (1 + round(share * (width - 1)))]
        )
    return rows
