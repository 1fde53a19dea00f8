"""What is wrong with a sweep file, and where: `Place`, `Problems`, `SweepFileError`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hpo.errors import UsageError

MOST_PROBLEMS = 20
"""How many problems are told at once; with more, people mend the first ones and run again."""


class SweepFileError(UsageError):
    """A sweep file cannot be used. Its text has one line for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something is written."""

    file: str
    """A path as the user gave it, or `--set key=..`."""
    line: int = 0
    """Counts from 1; 0 where lines mean nothing."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(slots=True)
class Problems:
    """Collects problems, so that one run tells all of them.

    A problem names a key path such as `vary.lr.low`, or `vary.lr[2]` for an item. Its place is
    that of the path, or of the nearest part of the document around it.
    """

    file: str
    places: Mapping[str, Place] = field(default_factory=dict)
    found: list[tuple[Place, str]] = field(default_factory=list)
    unsure: set[Place] = field(default_factory=set)
    """Lines that could not be read for what they are, so that more about them would mislead."""

    def place(self, path: str) -> Place:
        """Return where `path` is written, or the nearest thing around it."""
        while path:
            if path in self.places:
                return self.places[path]
            path = re.sub(r"(^|\.)[^.\[]*$|\[\d+\]$", "", path)
        return self.places.get("", Place(self.file, 1))

    def add(self, path: str, message: str) -> None:
        """Note that what `path` says cannot be used.

        Args:
            path: the key path; empty for the file as a whole.
            message: what is wrong and what to write instead: `is 0, must be > 0`.
        """
        place = self.place(path)
        if place not in self.unsure:
            self.add_at(place, re.sub(r"\[\d+\]", "", path), message)

    def add_at(self, place: Place, name: str, message: str) -> None:
        """Note a problem at a known place."""
        problem = (place, f"{name}: {message}" if name else message)
        if problem not in self.found:
            self.found.append(problem)

    def add_unsure(self, place: Place, name: str, message: str) -> None:
        """Note a problem because of which nothing more is said about this place."""
        self.add_at(place, name, message)
        self.unsure.add(place)

    def check(self) -> None:
        """Raise if anything was found.

        Raises:
            SweepFileError: with every problem, in the order of the lines.
        """
        if not self.found:
            return
        lines = [f"{place}: {text}" for place, text in sorted(self.found, key=lambda p: p[0])]
        if len(lines) > MOST_PROBLEMS:
            more = len(lines) - MOST_PROBLEMS
            lines = [*lines[:MOST_PROBLEMS], f"and {more} more of this kind"]
        raise SweepFileError(*lines)
