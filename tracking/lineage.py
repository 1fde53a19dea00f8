"""What explains and reproduces a run: code, environment, machine, settings, in one small file."""

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tracking.files import publish_bytes

PACKAGES = (
    "torch",
    "torchvision",
    "numpy",
    "optuna",
    "mlflow",
    "sqlalchemy",
    "scikit-learn",
    "scipy",
    "safetensors",
    "hpo",
)
"""Those whose versions can change what a run computes or how it is kept."""

FORMAT_VERSION = 1
_GIT_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where a run comes from."""

    run_key: str
    config: Mapping[str, object]
    """Everything the run was configured with, JSON values."""
    source_digest: str
    """Of the code; see `tracking.digest`."""
    data_digest: str | None
    """Of the data it read; None when there is none."""
    seeds: Mapping[str, int]
    """By the name of the random stream."""
    packages: Mapping[str, str]
    """Versions by package; `python` is among them."""
    machine: Mapping[str, str]
    """As `machine_description` gives it."""
    settings: Mapping[str, object]
    """What else changes numbers: device, threads, data workers, precision, deterministic mode."""
    git_revision: str | None
    """None outside a repository."""
    is_git_dirty: bool
    """Whether files differed from that revision; the source digest counts, not this."""

    def publish(self, path: Path) -> None:
        """Write the lineage to `path`, whole or not at all."""
        form = {"v": FORMAT_VERSION, **asdict(self)}
        text = json.dumps(form, indent=2, sort_keys=True, allow_nan=False)
        publish_bytes(path, text.encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> "Lineage":
        """Read what `publish` wrote.

        Raises:
            FileNotFoundError: There is none.
            ValueError: It is damaged, or of a later version.
        """
        try:
            form = json.loads(path.read_bytes())
            version = form.pop("v")
            lineage = cls(**form) if version == FORMAT_VERSION else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not a readable lineage file: {error}") from error
        if lineage is None:
            raise ValueError(
                f"{path} has version {version}, this release reads {FORMAT_VERSION}; "
                "use the release that wrote it, or a later one"
            )
        return lineage

    def differences(self, other: "Lineage") -> list[str]:
        """Return one line for each thing in which the other differs, apart from run and config."""
        mine, others = _flat(asdict(self)), _flat(asdict(other))
        return [
            f"{name}: {mine.get(name, 'absent')} became {others.get(name, 'absent')}"
            for name in sorted(mine.keys() | others.keys())
            if mine.get(name, "absent") != others.get(name, "absent")
        ]


def git_state(path: Path) -> tuple[str | None, bool]:
    """Return the revision checked out at `path` and whether files there differ from it.

    `(None, False)` without git, outside a repository, before its first commit, or when git takes
    longer than five seconds. New files count as differences, ignored ones do not. Nothing in the
    repository is written or run.
    """
    revision = _git(path, "rev-parse", "--verify", "HEAD")
    if revision is None:
        return None, False
    changes = _git(path, "status", "--porcelain", "--untracked-files=normal", "--", ".")
    return revision.strip(), bool(changes)


@cache
def package_versions() -> Mapping[str, str]:
    """Return the installed versions of what a run depends on, without importing any of it."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


@cache
def machine_description() -> Mapping[str, str]:
    """Return the processor's model, its number of cores and the operating system."""
    return {
        "processor": _processor(),
        "num_cores": str(os.cpu_count() or 0),
        "os": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
    }


def _flat(form: Mapping[str, object]) -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in form.items():
        if name in ("run_key", "config"):
            continue
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": item for inner, item in value.items()}
        else:
            flat[name] = value
    return flat


def _git(path: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(path), "-c", "core.fsmonitor=false", *arguments]
    # No lock on the index, no prompt, and no repository that a variable points elsewhere.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        result = subprocess.run(  # noqa: S603  fixed arguments, no shell
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return result.stdout


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model", "Hardware") and value.strip():
                return value.strip()
    except OSError:
        pass  # Not Linux.
    return platform.processor() or platform.machine()
