"""What the key `data` names: an image set known by name, a folder, a file or a function."""

import importlib
import importlib.machinery
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from hpo.errors import did_you_mean
from hpo.training.catalog import IMAGE_SETS

SPLIT_NAMES: Final = ("train", "val", "test")
"""The three parts, in the order of their codes 0, 1 and 2."""

_FACTORY: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class BadDataError(Exception):
    """Data that cannot be trained on; the text goes on after the key: `names no folder ...`."""


class OriginKind(StrEnum):
    """Where images come from."""

    CATALOG = "catalog"
    """An image set that is known by name."""
    FOLDER = "folder"
    """Image files, one folder a class."""
    ARRAYS = "arrays"
    """An `.npz` file of NumPy arrays."""
    FACTORY = "factory"
    """A Python function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the key `data` names."""

    kind: OriginKind
    place: str
    """The name in the catalogue, the path, or `package.module:function`."""

    @property
    def path(self) -> Path:
        """The folder or file, relative to the current folder."""
        return Path(self.place).expanduser()


def parse_origin(data: str) -> Origin:
    """Read the key `data`.

    Raises:
        BadDataError: it names nothing that can be read.
    """
    if data in IMAGE_SETS:
        return Origin(kind=OriginKind.CATALOG, place=data)
    for kind in (OriginKind.FOLDER, OriginKind.ARRAYS):
        place = data.removeprefix(f"{kind}:")
        if place != data:
            if not place:
                raise BadDataError(f"must have a path after {kind}:")
            return Origin(kind=kind, place=place)
    if _FACTORY.fullmatch(data):
        return Origin(kind=OriginKind.FACTORY, place=data)
    near = did_you_mean(data, list(IMAGE_SETS))
    raise BadDataError(
        f"must be one of {', '.join(IMAGE_SETS)}, folder:PATH, arrays:FILE.npz or"
        f" package.module:function{near}"
    )


def user_folder_first() -> None:
    """Let the user's own modules be imported from the current folder, as `python -m` would."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def check_factory(place: str) -> None:
    """Check that the module of a factory can be found, without running its code.

    Raises:
        BadDataError: there is no such module in the current folder or among what is installed.
    """
    module = place.partition(":")[0]
    top = module.partition(".")[0]
    importlib.invalidate_caches()
    # Only `open_factory`, in a process of its own, puts the current folder on the path.
    path = [str(Path.cwd()), *sys.path]
    if top not in sys.modules and importlib.machinery.PathFinder.find_spec(top, path) is None:
        raise BadDataError(
            f"names the module {module}, which is neither in {Path.cwd()} nor installed;"
            " run hpo in the folder that holds it"
        )
