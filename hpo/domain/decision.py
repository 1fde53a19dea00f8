"""The answer to a report: continue, pause, prune or stop."""

from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """What a worker does after a report."""

    CONTINUE = "continue"
    """Train the next epoch."""
    PAUSE = "pause"
    """Checkpoint and leave; another attempt goes on later."""
    PRUNE = "prune"
    """End for good as hopeless; the trial becomes PRUNED."""
    STOP = "stop"
    """Checkpoint and leave because the study is stopping; the trial goes back to WAITING."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An action and why it was taken."""

    action: Action
    reason: str = ""
    """One clause for people, empty for `continue`: `val_loss 0.91 above median 0.44`."""

    @property
    def is_continue(self) -> bool:
        """Whether training goes on."""
        return self.action is Action.CONTINUE


CONTINUE = Decision(action=Action.CONTINUE)
