"""`hpo evaluate`: a trial's best checkpoint on a split."""

import click

from hpo.cli.options import home_option, json_option
from hpo.study.home import Home


@click.command()
@click.argument("trial")
@click.option(
    "--split",
    type=click.Choice(["train", "val", "test"]),
    default="val",
    show_default=True,
    help="Which images to evaluate on.",
)
@home_option
@json_option
def command(trial: str, split: str, home: Home, is_json: bool) -> None:  # noqa: FBT001
    """Evaluate the best checkpoint of TRIAL on a split.

    Reading the test split is put on record with the trial: what is chosen by it is no test any
    more. `hpo best` reads it once for the winner.
    """
    import dataclasses

    from hpo.cli.output import answer, answer_json, answer_table, note
    from hpo.clock import SystemClock
    from hpo.study import archive
    from hpo.study.evaluation import evaluate_trial

    ledger = archive.open_ledger(home)
    study, found = archive.find_trial(ledger, trial)
    if split == "test":
        note(f"reading the test split for {trial}; that is put on record")
    result = evaluate_trial(study, found, split, home=home, ledger=ledger, clock=SystemClock())
    if is_json:
        answer_json(dataclasses.asdict(result))
        return
    answer(f"{result.trial}, epoch {result.epoch}, on the {split} split ({result.device}):")
    answer_table(
        ["", split, *(["recorded"] if result.recorded else [])],
        [
            [
                name,
                f"{value:.6f}",
                *([f"{result.recorded[name]:.6f}"] if name in result.recorded else []),
            ]
            for name, value in result.scores.items()
        ],
        numeric=[1, 2],
    )
    if split == "test":
        answer("the test split was read; do not choose by it")
