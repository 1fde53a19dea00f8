"""How many attempts run at one time, and where."""

import pytest

from hpo.domain.sweep import Execution
from hpo.errors import UsageError
from hpo.execution.inventory import Gpu, Inventory
from hpo.execution.placement import MEMORY_PER_WORKER_BYTES, place

PLENTY = 64 << 30


def machine(
    *, gpus: int = 0, has_mps: bool = False, cores: int = 8, memory: int = PLENTY
) -> Inventory:
    return Inventory(
        gpus=tuple(Gpu(index=index, uuid=f"GPU-{index}") for index in range(gpus)),
        has_mps=has_mps,
        num_cores=cores,
        free_memory_bytes=memory,
    )


def placed(execution: Execution, inventory: Inventory) -> list[tuple[str, str | None, int]]:
    slots = place(execution, inventory)
    assert [slot.index for slot in slots] == list(range(len(slots)))
    return [(slot.device, slot.visible_device, slot.num_threads) for slot in slots]


def test_without_a_gpu_each_core_trains_one_trial_on_one_thread() -> None:
    assert placed(Execution(), machine(cores=3)) == [("cpu", None, 1)] * 3


def test_memory_bounds_the_workers_and_they_share_the_cores() -> None:
    memory = 2 * MEMORY_PER_WORKER_BYTES + 1
    assert placed(Execution(), machine(cores=8, memory=memory)) == [("cpu", None, 4)] * 2


def test_with_hardly_any_memory_one_worker_runs() -> None:
    assert placed(Execution(), machine(cores=4, memory=1)) == [("cpu", None, 4)]


def test_the_number_of_workers_that_is_given_counts() -> None:
    three = Execution(workers=3)
    assert placed(three, machine(cores=8, memory=1)) == [("cpu", None, 2)] * 3
    assert placed(three, machine(cores=2)) == [("cpu", None, 1)] * 3


def test_each_gpu_is_one_slot_that_its_attempt_sees_as_the_first() -> None:
    expected = [("cuda:0", "GPU-0", 4), ("cuda:0", "GPU-1", 4)]
    assert placed(Execution(), machine(gpus=2)) == expected


def test_a_gpu_never_gets_two_workers() -> None:
    assert len(placed(Execution(workers=5), machine(gpus=2))) == 2
    assert placed(Execution(workers=1), machine(gpus=2)) == [("cuda:0", "GPU-0", 8)]


def test_a_named_device_is_taken_and_no_other() -> None:
    execution = Execution(devices=("cuda:1",))
    assert placed(execution, machine(gpus=2)) == [("cuda:0", "GPU-1", 8)]
    assert placed(Execution(devices=("cpu",)), machine(gpus=2, cores=2)) == [("cpu", None, 1)] * 2


def test_a_mac_trains_on_its_gpu_one_trial_at_a_time() -> None:
    assert placed(Execution(), machine(has_mps=True)) == [("mps", None, 8)]
    assert placed(Execution(workers=4), machine(has_mps=True)) == [("mps", None, 8)]


def test_an_unknown_device_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(UsageError, match=r"names cuda:2, this machine has: cuda:0, cuda:1, cpu"):
        place(Execution(devices=("cuda:0", "cuda:2")), machine(gpus=2))
    with pytest.raises(UsageError, match=r"names cuda:0, this machine has: cpu"):
        place(Execution(devices=("cuda:0",)), machine())


def test_a_trial_on_several_devices_gets_neighbours() -> None:
    slots = place(Execution(), machine(gpus=5), devices_per_trial=2)
    assert [(slot.device, slot.visible_device) for slot in slots] == [
        ("cuda:0", "GPU-0,GPU-1"),
        ("cuda:0", "GPU-2,GPU-3"),
    ]
    on_cpu = place(Execution(), machine(cores=8), devices_per_trial=4)
    assert [(slot.device, slot.num_threads) for slot in on_cpu] == [("cpu", 4)] * 2


def test_a_trial_on_more_devices_than_there_are_is_refused() -> None:
    with pytest.raises(UsageError, match="devices_per_trial is 3, this machine has 2: cuda:0"):
        place(Execution(), machine(gpus=2), devices_per_trial=3)
