"""`hpo status`: one study's trials, attempts and reasons."""

import click

from hpo.cli.options import home_option, json_option, study_argument
from hpo.study.home import Home


@click.command()
@study_argument(is_required=False)
@home_option
@json_option
def command(study: str | None, home: Home, is_json: bool) -> None:  # noqa: FBT001
    """Show the trials of STUDY, or of the one that ended last."""
    from hpo.cli.output import answer, answer_json, answer_table, answer_wrapped, duration
    from hpo.domain.trial import TrialState
    from hpo.study import archive
    from hpo.study.naming import run_name
    from hpo.study.ownership import owner_of_study
    from hpo.study.status import standing

    ledger = archive.open_ledger(home)
    row = archive.find_row(ledger, study)
    loaded, notes = archive.load(ledger, row), ledger.notes(row.uid)
    metric = loaded.sweep.objective.metric
    if is_json:
        answer_json(
            {
                "study": row.name,
                "state": standing(row, home, ledger),
                "reason": row.reason,
                "owner": owner_of_study(home, row.name, ledger),
                "running_s": row.running_s,
                "trials": [
                    {
                        "trial": f"{row.name}/{trial.number}",
                        "state": trial.state.value,
                        "reason": trial.reason,
                        "failure": trial.failure.value if trial.failure else None,
                        "params": dict(trial.plan.params),
                        "role": trial.plan.role.value,
                        "axis": trial.plan.axis,
                        "replicate": trial.plan.replicate,
                        "config_id": trial.plan.config_id,
                        "epochs": trial.num_epochs,
                        metric: trial.value,
                        "best_epoch": trial.best_epoch,
                        "attempts": trial.num_attempts,
                        "notes": list(notes.get(trial.number, ())),
                    }
                    for trial in loaded.trials
                ],
            }
        )
        return
    answer_table(
        ["trial", "settings", "state", "epochs", metric, "tries", "reason"],
        [
            [
                trial.number,
                run_name(loaded.sweep, trial.plan),
                trial.state.value,
                trial.num_epochs or None,
                f"{trial.value:.4f}" if trial.value is not None else None,
                trial.num_attempts or None,
                trial.reason,
            ]
            for trial in loaded.trials
        ],
        numeric=[0, 3, 4, 5],
    )
    if notes:
        answer("")
    for number, remarks in sorted(notes.items()):
        for remark in remarks:
            answer_wrapped(f"{row.name}/{number}  ", remark)
    counts = ", ".join(
        f"{loaded.count(state)} {state.value.lower()}"
        for state in TrialState
        if loaded.count(state)
    )
    answer("")
    answer(
        f"{row.name} is {standing(row, home, ledger)} ({row.reason}); {counts or 'no trials yet'}"
    )
    answer(f"{duration(row.running_s)} of running; home {home.root}")
