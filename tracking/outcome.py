"""What becomes of a batch of records while it is being delivered."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracking.tracker import Delivery


@dataclass(slots=True)
class Outcome:
    """What became of the records of a batch so far, by position."""

    tried: list[int] = field(default_factory=list)
    """Dealt with in one way or another."""
    refused: dict[int, str] = field(default_factory=dict)
    """With the reason."""
    postponed: set[int] = field(default_factory=set)
    """To be delivered again."""
    postponed_runs: set[str] = field(default_factory=set)
    """Keys of runs that do not exist yet, for whose sake their children must wait."""
    error: str | None = None
    """Why some are postponed, or why the delivery ended early."""

    def refuse(self, positions: Iterable[int], reason: object) -> None:
        """Set records aside for good; the first reason stands."""
        for position in positions:
            self.refused.setdefault(position, str(reason))

    def postpone(self, positions: Iterable[int], reason: object) -> None:
        """Leave records for another time, even those that were refused in part."""
        self.postponed.update(positions)
        self.error = str(reason)

    def to_delivery(self) -> Delivery:
        """Return what the caller of a tracker wants to know."""
        refused = {p: why for p, why in self.refused.items() if p not in self.postponed}
        delivered = [p for p in self.tried if p not in self.postponed and p not in refused]
        return Delivery(delivered=delivered, refused=refused, error=self.error)
