"""Names for the source code a run was made with: its digest, a stored copy, what changed since."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

_IGNORED_FOLDERS = frozenset({"__pycache__", "node_modules"})


def source_digest(package_dirs: Iterable[Path]) -> str:
    """Return the sha256 over names and contents of all Python files below the folders.

    A file is known by its folder's own name and its path below it, so that the digest does not
    depend on where the folders lie. Caches, hidden folders and virtual environments do not count.

    Raises:
        ValueError: Two of the folders have the same name.
        FileNotFoundError: A folder does not exist.
    """
    return _digest(_sources(package_dirs))


def store_sources(package_dirs: Iterable[Path], destination_root: Path) -> str:
    """Keep a copy of the Python files in `destination_root`/DIGEST and return the digest.

    The copy appears whole or not at all, and is made once. A kept copy that was damaged since is
    replaced.

    Raises:
        ValueError: Two of the folders have the same name, or a file changed while it was copied.
    """
    sources = _sources(package_dirs)
    contents = {name: path.read_bytes() for name, path in sources.items()}
    digest = _digest_of(contents)
    target = destination_root / digest
    if target.is_dir() and stored_digest(target) == digest:
        return digest
    destination_root.mkdir(parents=True, exist_ok=True)
    unborn = Path(tempfile.mkdtemp(prefix=f".{digest[:12]}-", dir=destination_root))
    try:
        for name, content in contents.items():
            file = unborn / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        if stored_digest(unborn) != digest:
            raise ValueError(f"the copy of the sources in {unborn} differs from them")
        _publish(unborn, target)
    finally:
        shutil.rmtree(unborn, ignore_errors=True)
    return digest


def stored_digest(stored_dir: Path) -> str:
    """Return the digest of the files in a stored copy, which is its name unless it was damaged."""
    return _digest(_stored(stored_dir))


def changed_files(stored_dir: Path, current_dirs: Iterable[Path]) -> list[str]:
    """Return what differs now from a stored copy, such as `edited: hpo/search/grid.py`."""
    stored, current = _stored(stored_dir), _sources(current_dirs)
    changes = [f"added: {name}" for name in current.keys() - stored.keys()]
    changes += [f"removed: {name}" for name in stored.keys() - current.keys()]
    changes += [
        f"edited: {name}"
        for name in stored.keys() & current.keys()
        if stored[name].read_bytes() != current[name].read_bytes()
    ]
    return sorted(changes, key=lambda change: change.partition(": ")[2])


def _sources(package_dirs: Iterable[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    names: set[str] = set()
    for package_dir in package_dirs:
        folder = package_dir.resolve()
        if not folder.is_dir():
            raise FileNotFoundError(f"{package_dir} is no folder of Python files")
        if folder.name in names:
            raise ValueError(f"two source folders are named {folder.name}; their files would mix")
        names.add(folder.name)
        found |= {
            f"{folder.name}/{file.relative_to(folder).as_posix()}": file
            for file in _python_files(folder)
        }
    return found


def _stored(stored_dir: Path) -> dict[str, Path]:
    return {
        file.relative_to(stored_dir).as_posix(): file
        for file in stored_dir.rglob("*.py")
        if file.is_file()
    }


def _python_files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_ignored(Path(parent, name))]
        for name in files:
            file = Path(parent, name)
            if name.endswith(".py") and file.is_file():
                yield file


def _is_ignored(folder: Path) -> bool:
    is_environment = (folder / "pyvenv.cfg").exists()
    return folder.name in _IGNORED_FOLDERS or folder.name.startswith(".") or is_environment


def _digest(sources: dict[str, Path]) -> str:
    return _digest_of({name: path.read_bytes() for name, path in sources.items()})


def _digest_of(contents: dict[str, bytes]) -> str:
    sha256 = hashlib.sha256()
    for name in sorted(contents):
        # Lengths first, so that no two sets of files run together into the same bytes.
        path = name.encode()
        sha256.update(b"%d:%s%d:" % (len(path), path, len(contents[name])))
        sha256.update(contents[name])
    return sha256.hexdigest()


def _publish(unborn: Path, target: Path) -> None:
    unborn.chmod(0o755)  # mkdtemp makes it private.
    damaged = target.with_name(f"{unborn.name}-damaged")
    try:
        unborn.rename(target)
    except OSError:
        # Another process was faster, or what is there is damaged.
        if stored_digest(target) == target.name:
            return
        target.rename(damaged)
        unborn.rename(target)
        shutil.rmtree(damaged, ignore_errors=True)
