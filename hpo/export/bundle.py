"""A bundle: a folder with a model and everything to run and recheck it. Imports no framework.

The manifest names the sha256 of every other file, and its own: a bundle that opens is the one
that was published.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hpo.errors import HpoError

FORMAT: Final = "hpo-bundle"
"""Stands in every manifest; a folder without it is none of ours."""
FORMAT_VERSION: Final = 1
"""Raised when a reader of the old version would misread the new one."""

MANIFEST: Final = "manifest.json"
MODEL: Final = "model.onnx"
WEIGHTS: Final = "model.safetensors"
VALIDATION: Final = "validation.npz"
README: Final = "README.md"

LISTED: Final = (MODEL, WEIGHTS, VALIDATION, README)
"""The files that the manifest lists; with the manifest, a bundle holds these and no other."""

_SELF_KEY: Final = "manifest_sha256"


class ExportError(HpoError):
    """A model is not exported; nothing was published, and a bundle that was there is as it was."""


class BundleDamagedError(ExportError):
    """A folder is no bundle, or its bytes are not those that were published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle whose every file is as published."""

    folder: Path
    manifest: Mapping[str, Any]
    """Plain JSON, written by `hpo.export.exporter`."""


def manifest_text(document: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """Return the manifest of a bundle: a document with the hashes of all files and its own.

    Args:
        document: what there is to say, in plain JSON.
        files: content by name, those of `LISTED`.

    Raises:
        ExportError: a number is not finite, or a value is no JSON.
    """
    whole = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **document,
        "files": {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "num_bytes": len(data)}
            for name, data in files.items()
        },
    }
    try:
        return _text({**whole, _SELF_KEY: _sha256_of(whole)})
    except (ValueError, TypeError) as error:
        raise ExportError(f"the manifest cannot be written as JSON: {error}") from error


def open_bundle(folder: Path) -> Bundle:
    """Return the bundle in a folder, every file verified.

    Raises:
        BundleDamagedError: a file is missing, damaged, or of another version.
    """
    manifest = _manifest_of(folder)
    for name in LISTED:
        try:
            data = (folder / name).read_bytes()
        except OSError as error:
            raise BundleDamagedError(
                f"{folder / name} cannot be read: {error.strerror}; export the bundle again"
            ) from error
        found, recorded = hashlib.sha256(data).hexdigest(), manifest["files"][name]["sha256"]
        if found != recorded:
            raise BundleDamagedError(
                f"{folder / name} is damaged: its sha256 is {found[:12]}..., the manifest says"
                f" {recorded[:12]}...; export the bundle again"
            )
    return Bundle(folder=folder, manifest=manifest)


def foreign_content(folder: Path) -> str | None:
    """Return why a folder may not be replaced by a bundle; None for a bundle or an empty folder.

    A damaged bundle may be replaced: it is recognised by its names and its manifest's first words.
    """
    names = sorted(path.name for path in folder.iterdir())
    if not names:
        return None
    strange = [name for name in names if name not in (*LISTED, MANIFEST)]
    if strange:
        return f"it holds {strange[0]}, which no bundle does"
    if MANIFEST not in names or f'"format": "{FORMAT}"' not in _start_of(folder / MANIFEST):
        return f"it has no {MANIFEST} of a bundle"
    return None


def _start_of(path: Path) -> str:
    return path.read_text(errors="replace")[:200] if path.is_file() else ""


def _manifest_of(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        text = path.read_text()
        manifest: dict[str, Any] = json.loads(text)
        if manifest["format"] != FORMAT:
            raise BundleDamagedError(f"{path} is of another format than {FORMAT}")
        if manifest["format_version"] != FORMAT_VERSION:
            raise BundleDamagedError(
                f"{path} has format version {manifest['format_version']}, this version reads"
                f" {FORMAT_VERSION}; use the version that wrote it"
            )
        rest = {key: value for key, value in manifest.items() if key != _SELF_KEY}
        # the text is compared too: what reads alike may still have been changed
        is_whole = manifest[_SELF_KEY] == _sha256_of(rest) and text == _text(manifest)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleDamagedError(f"{path} is no manifest of a bundle: {error}") from error
    if not is_whole:
        raise BundleDamagedError(f"{path} was changed after it was published; export it again")
    return manifest


def _sha256_of(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(document).encode()).hexdigest()


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
