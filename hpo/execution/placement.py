"""How many attempts run at one time, on which device and with how many threads each."""

from hpo.domain.sweep import Execution
from hpo.errors import UsageError
from hpo.execution.executor import Slot
from hpo.execution.inventory import Gpu, Inventory

MEMORY_PER_WORKER_BYTES = 700 << 20
"""What an attempt with a small model and a resident data set needs, with room to spare."""


def place(execution: Execution, inventory: Inventory) -> tuple[Slot, ...]:
    """Return the slots of a study.

    One for each GPU where there are any. Otherwise one for each core, as far as memory allows:
    two processes with one thread each train small models seven times as fast as two with two.
    Cores are divided among the slots.

    Raises:
        UsageError: a named device is not there.
    """
    devices = _devices(execution, inventory)
    if devices == ["cpu"] and execution.workers is None:
        fitting = inventory.free_memory_bytes // MEMORY_PER_WORKER_BYTES
        num_workers = max(1, min(inventory.num_cores, fitting))
    elif devices == ["cpu"]:
        num_workers = execution.workers or 1
    else:
        num_workers = min(execution.workers or len(devices), len(devices))
    gpus = {f"cuda:{gpu.index}": gpu for gpu in inventory.gpus}
    return tuple(
        _slot(
            index, devices[index % len(devices)], gpus, max(1, inventory.num_cores // num_workers)
        )
        for index in range(num_workers)
    )


def _slot(index: int, device: str, gpus: dict[str, Gpu], num_threads: int) -> Slot:
    gpu = gpus.get(device)
    return Slot(
        index=index,
        device="cuda:0" if gpu else device,  # the attempt sees its own GPU alone
        visible_device=gpu.uuid if gpu else None,
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
