"""From a sweep file to a study in the ledger: a new one, or the one that is there."""

from collections.abc import Sequence
from pathlib import Path

from hpo.clock import Clock
from hpo.domain.sweep import Sweep
from hpo.errors import UsageError
from hpo.storage.ledger import Ledger, StudyRow
from hpo.study import archive
from hpo.study.compose import create_study, stored_distributions
from hpo.sweepfile.difference import compare_sweeps, render_changes
from hpo.sweepfile.sweep import SweepFile, load_sweep_file
from hpo.training.config import CLASSIFIER_SCHEMA


def read_sweep_file(path: Path, overrides: Sequence[str], new_name: str | None) -> SweepFile:
    """Read and check a sweep file with everything that is known before training.

    Raises:
        SweepFileError: with every problem found.
    """
    named = [*overrides, f"study={new_name}"] if new_name else overrides
    return load_sweep_file(path, CLASSIFIER_SCHEMA, named)


def settle(
    ledger: Ledger, file: SweepFile, path: Path, clock: Clock, *, is_extending: bool
) -> tuple[StudyRow, bool]:
    """Return the study of a sweep file, and whether it was there before.

    Raises:
        UsageError: a study of this name was made from another file; the text shows the
            difference and the command for each way on.
    """
    sweep = file.sweep
    known = {row.name: row for row in ledger.studies()}
    if sweep.study not in known:
        return create_study(ledger, sweep, file.text, clock), False
    row = known[sweep.study]
    changes = compare_sweeps(archive.sweep_of(row), sweep)
    grave = [change for change in changes if not change.is_harmless]
    if grave and not (is_extending and all(change.is_extension for change in grave)):
        raise UsageError(_refusal(row, sweep, path, grave, render_changes(grave)))
    if changes:
        ledger.extend_study(
            row.uid, archive.document_of(sweep), file.text, stored_distributions(sweep)
        )
        row = archive.find_row(ledger, sweep.study)
    return row, True


def _refusal(
    row: StudyRow, sweep: Sweep, path: Path, grave: Sequence[object], difference: str
) -> str:
    can_extend = all(getattr(change, "is_extension", False) for change in grave)
    lines = [f"study {row.name} exists and {path} has changed since:", difference]
    if can_extend:
        lines.append(f"  go on with the larger sweep:  hpo run {path} --extend")
    lines += [
        f"  run it as another study:      hpo run {path} --new-name {sweep.study}-2",
        f"  delete the old one first:     hpo delete {row.name}",
    ]
    return "\n".join(lines)
