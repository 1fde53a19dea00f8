"""`hpo list`: the studies of this home."""

import click

from hpo.cli.options import home_option, json_option
from hpo.study.home import Home


@click.command()
@home_option
@json_option
def command(home: Home, is_json: bool) -> None:  # noqa: FBT001
    """List the studies of this home, the oldest first."""
    from hpo.cli.output import answer, answer_json, answer_table
    from hpo.domain.trial import TrialState
    from hpo.study import archive
    from hpo.study.status import standing

    if not home.exists:
        answer_json([]) if is_json else answer(f"no study is kept in {home.root}")
        return
    ledger = archive.open_ledger(home)
    rows = ledger.studies()
    if is_json:
        answer_json(
            [
                {
                    "study": row.name,
                    "state": standing(row, home, ledger),
                    "created_at": row.created_at,
                    "ended_at": row.ended_at,
                    "trials": {state.value: row.counts.get(state, 0) for state in TrialState},
                }
                for row in rows
            ]
        )
        return
    if not rows:
        answer(f"no study is kept in {home.root}")
        return
    answer_table(
        ["study", "state", "trials", "complete", "pruned", "failed", "open", "created"],
        [
            [
                row.name,
                standing(row, home, ledger),
                sum(row.counts.values()),
                row.counts.get(TrialState.COMPLETE, 0),
                row.counts.get(TrialState.PRUNED, 0),
                row.counts.get(TrialState.FAIL, 0),
                row.counts.get(TrialState.WAITING, 0) + row.counts.get(TrialState.RUNNING, 0),
                row.created_at[:16].replace("T", " "),
            ]
            for row in rows
        ],
        numeric=[2, 3, 4, 5, 6],
    )
