"""How many attempts run at one time, on which device and with how many threads each."""

from hpo.domain.sweep import Execution
from hpo.errors import UsageError
from hpo.execution.executor import Slot
from hpo.execution.inventory import Gpu, Inventory

MEMORY_PER_WORKER_BYTES = 700 << 20
"""What an attempt with a small model and a resident data set needs, with room to spare."""


def place(
    execution: Execution, inventory: Inventory, devices_per_trial: int = 1
) -> tuple[Slot, ...]:
    """Return the slots of a study.

    One for each GPU, or for each `devices_per_trial` of them, where there are any. Otherwise one
    for each core (or so many), as far as memory allows: two processes with one thread each train
    small models seven times as fast as two with two. Cores are divided among the slots.

    Raises:
        UsageError: a named device is not there, or a trial wants more than there are.
    """
    devices = _devices(execution, inventory)
    if devices == ["cpu"] and execution.workers is None:
        fitting = inventory.free_memory_bytes // (MEMORY_PER_WORKER_BYTES * devices_per_trial)
        num_workers = max(1, min(inventory.num_cores // devices_per_trial, fitting))
    elif devices == ["cpu"]:
        num_workers = execution.workers or 1
    else:
        if devices_per_trial > len(devices):
            raise UsageError(
                f"devices_per_trial is {devices_per_trial}, this machine has {len(devices)}:"
                f" {', '.join(devices)}"
            )
        num_groups = len(devices) // devices_per_trial
        num_workers = min(execution.workers or num_groups, num_groups)
    gpus = {f"cuda:{gpu.index}": gpu for gpu in inventory.gpus}
    num_threads = max(1, inventory.num_cores // num_workers)
    return tuple(
        _slot(index, _group(devices, index, devices_per_trial), gpus, num_threads)
        for index in range(num_workers)
    )


def _group(devices: list[str], index: int, size: int) -> list[str]:
    """Return the devices of one slot, neighbours; slots share where there are not enough."""
    if len(devices) < size:
        return devices
    first = index * size % len(devices)
    return devices[first : first + size]


def _slot(index: int, devices: list[str], gpus: dict[str, Gpu], num_threads: int) -> Slot:
    own = [gpus[device].uuid for device in devices if device in gpus]
    return Slot(
        index=index,
        device="cuda:0" if own else devices[0],  # the attempt sees its own GPUs alone
        visible_device=",".join(own) or None,
        num_threads=num_threads,
    )


def _devices(execution: Execution, inventory: Inventory) -> list[str]:
    present = [f"cuda:{gpu.index}" for gpu in inventory.gpus]
    if inventory.has_mps:
        present.append("mps")
    if execution.devices is None:
        return present or ["cpu"]
    for device in execution.devices:
        if device not in [*present, "cpu"]:
            there = ", ".join([*present, "cpu"])
            raise UsageError(f"execution.devices names {device}, this machine has: {there}")
    return list(execution.devices)
