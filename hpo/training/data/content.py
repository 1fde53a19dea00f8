"""A name for what is in some files, found again without reading them while nobody changed them.

Each file's sha256 is kept with its size, times and inode, of which writing to a file changes at
least one. A file that looks as it did is not read again; a copy elsewhere has the same name.
"""

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tracking.files import publish_bytes

_Look = tuple[str, int, int, int, int]


def content_digest(root: Path, files: Sequence[str], memory: Path) -> str:
    """Return the sha256 over the names below `root` and the contents of `files`.

    Args:
        root: where the files lie; its own name does not count.
        files: relative to `root`; their order does not count.
        memory: a file to remember digests in; it may be deleted at any time.
    """
    looks = [_look(root, file) for file in sorted(files)]
    seen = hashlib.sha256(json.dumps(looks).encode()).hexdigest()
    remembered = _remembered(memory)
    if remembered.get("seen") == seen:
        digest: str = remembered["digest"]
        return digest
    known = {tuple(look): sha256 for look, sha256 in remembered.get("files", ())}
    with ThreadPoolExecutor() as pool:
        digests = list(pool.map(lambda look: known.get(look) or _sha256(root / look[0]), looks))
    whole = hashlib.sha256()
    for look, sha256 in zip(looks, digests, strict=True):
        whole.update(f"{len(look[0])}:{look[0]}{sha256}".encode())
    digest = whole.hexdigest()
    document = {"seen": seen, "digest": digest, "files": list(zip(looks, digests, strict=True))}
    publish_bytes(memory, json.dumps(document).encode())
    return digest


def _look(root: Path, file: str) -> _Look:
    stat = (root / file).stat()
    return file, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _remembered(memory: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(memory.read_text())
    except (OSError, ValueError):
        return {}
    return document


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
