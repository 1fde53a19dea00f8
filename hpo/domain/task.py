"""What a trainable thing declares about its configuration, without training anything."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hpo.domain.search_space import Params, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key that may stand in `baseline`."""

    name: str
    kind: str
    """`int`, `float`, `text`, `bool` or `bool or text`."""
    default: Value | None
    """None means the key is required."""
    doc: str
    """One line for people: meaning, unit, range."""
    choices: tuple[Value, ...] | None = None
    """The only values allowed; None means any of the kind."""
    only_with: tuple[str, tuple[Value, ...]] | None = None
    """Another key, and the values of which it must have one for this key to be read; or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProblem:
    """One thing wrong with a configuration."""

    key: str
    """The key to point at."""
    message: str
    """What is wrong and what to write instead: `is 0, must be > 0`."""


class TaskSchema(Protocol):
    """Knows the keys of a trainable thing.

    1. Nothing here imports a training framework or reads data; a check takes milliseconds.
    2. `complete` fills defaults and never changes a value that was given.
    3. `problems` finds everything that can be known before training, all at once.
    """

    @property
    def keys(self) -> Mapping[str, ConfigKey]:
        """Every key by name, in the order to document them."""
        ...

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that every report carries and an objective may name."""
        ...

    def complete(self, config: Params) -> Params:
        """Return `config` with defaults for the keys it lacks, in the order of `keys`."""
        ...

    def problems(self, config: Params) -> list[ConfigProblem]:
        """Return what is wrong with a complete configuration; empty means it can be trained."""
        ...
