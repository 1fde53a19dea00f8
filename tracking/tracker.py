"""What every tracking backend promises."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tracking.records import ExperimentDescribed, Record

RUN_KEY_TAG = "hpo.run_key"
"""A run's own tag that holds its run key: by it a run is found again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of a batch of records, by their positions in it."""

    delivered: Sequence[int]
    """They arrived."""
    refused: Mapping[int, str] = field(default_factory=dict)
    """They will never be taken, with the reason. All others are to be delivered again."""
    error: str | None = None
    """Why some are to be delivered again; None when none are."""


class Tracker(Protocol):
    """Keeps the records of runs where people look at them.

    1. Delivering records again, all or some, in their first order, changes nothing: every run,
       point and data set is there once. That holds after a delivery that was killed half-way, too.
    2. A run is looked for by its run key before it is created.
    3. Times, steps and values are those of the records, whenever they are delivered.
    4. A child run is nested under its parent.
    5. The last of a run's starts, reopenings and ends decides its state.
    6. What a backend will never take is refused with a reason, and nothing else with it.
    7. Trouble that may pass, such as a server that is down, raises nothing and refuses nothing:
       the records concerned are to be delivered again; those of other runs go on if possible.
    8. What a backend must shorten is shortened with a tag that says so.
    9. It may count on being the only one, while it lives, that delivers records of the runs whose
       keys begin with the same part.
    """

    def deliver(self, experiment: str, records: Sequence[Record]) -> Delivery:
        """Deliver a batch that belongs to one experiment."""
        ...


def by_run(records: Iterable[Record]) -> dict[str | None, list[int]]:
    """Return the positions of each run's records, in order; None stands for the experiment."""
    positions: dict[str | None, list[int]] = {}
    for position, record in enumerate(records):
        run_key = None if isinstance(record, ExperimentDescribed) else record.run_key
        positions.setdefault(run_key, []).append(position)
    return positions
