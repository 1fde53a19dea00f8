"""Everything that is printed: answers to stdout, all else to stderr."""

import contextlib
import json
import sys
import textwrap
from collections.abc import Container, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 100
"""Tables fit this many columns, also where the terminal's width is unknown."""


def answer(text: str) -> None:
    """Print a line of the answer."""
    print(text)


def note(text: str) -> None:
    """Print a line that is not the answer."""
    with contextlib.suppress(BrokenPipeError):  # the reader left; what is done goes on
        print(text, file=sys.stderr, flush=True)


def answer_wrapped(label: str, text: str) -> None:
    """Print a paragraph of the answer, its further lines indented below the first."""
    print(textwrap.fill(text, WIDTH, initial_indent=label, subsequent_indent="  "))


def answer_json(document: Any) -> None:
    """Print the answer for machines."""
    print(json.dumps(document, indent=2, allow_nan=False))


def answer_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], numeric: Container[int] = ()
) -> None:
    """Print a table.

    Args:
        header: titles of the columns.
        rows: cells; None is empty.
        numeric: indices of the columns to align to the right.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, title in enumerate(header):
        is_number = index in numeric
        table.add_column(title, justify="right" if is_number else "left", no_wrap=is_number)
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    console = Console(width=WIDTH if not sys.stdout.isatty() else None, highlight=False)
    console.print(table)


def duration(seconds: float) -> str:
    """Return a time span as people say it: `41 s`, `12 min`, `3.4 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def size(num_bytes: float) -> str:
    """Return an amount of data as people say it: `3.1 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.3g} TB"
