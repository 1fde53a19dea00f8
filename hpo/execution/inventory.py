"""What this machine has to train on, found without importing a training framework."""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One CUDA device."""

    index: int
    """As the driver counts them; the `n` of `cuda:n`."""
    uuid: str
    """Names the device for every process of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The devices, cores and memory that a study may use."""

    gpus: tuple[Gpu, ...]
    has_mps: bool
    """Whether this is a Mac with an Apple GPU."""
    num_cores: int
    """Cores this process may use."""
    free_memory_bytes: int


def take_inventory() -> Inventory:
    """Look at this machine."""
    return Inventory(
        gpus=_visible_gpus(),
        has_mps=(platform.system(), platform.machine()) == ("Darwin", "arm64"),
        num_cores=_num_cores(),
        free_memory_bytes=psutil.virtual_memory().available,
    )


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _visible_gpus() -> tuple[Gpu, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        listing = subprocess.run(  # noqa: S603  # the driver's own tool, fixed arguments
            [program, "--query-gpu=index,uuid", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    gpus = []
    for line in listing.splitlines():
        index, _, uuid = line.partition(",")
        gpus.append(Gpu(index=int(index), uuid=uuid.strip()))
    return _only_visible(tuple(gpus), os.environ.get("CUDA_VISIBLE_DEVICES"))


def _only_visible(gpus: tuple[Gpu, ...], visible: str | None) -> tuple[Gpu, ...]:
    if visible is None:
        return gpus
    named = [name.strip() for name in visible.split(",")]
    return tuple(gpu for gpu in gpus if str(gpu.index) in named or gpu.uuid in named)
