"""The processes that train one trial together, each on its own device.

Rank 0 is the attempt's own process: it alone reports, decides and keeps checkpoints, and it
starts the others (`hpo.training.rank`). Each rank takes its share of every batch; gradients are
summed over all (`DistributedDataParallel`), so that the trial takes the same updates as on one
device.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import IO, Any, Final

import safetensors.torch
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore
from torch.nn.parallel import DistributedDataParallel

from hpo.training.state import TrainState

TIMEOUT: Final = timedelta(minutes=10)
"""How long a rank waits for the others; the first epoch on a cold file system takes minutes."""
LEAVING_S: Final = 30.0
"""How long the other ranks have to end once rank 0 has."""
_DYING_S: Final = 5.0
"""How long the system may take to tell how a process ended whose connection broke."""


class RankDiedError(RuntimeError):
    """A process of the trial ended before its work was done; the message names it."""


class Ranks:
    """This process among those of its trial."""

    def __init__(self, rank: int, num_ranks: int, store: Store | None) -> None:
        """Be one of several, or alone.

        Args:
            rank: of this process, from 0.
            num_ranks: processes in all.
            store: carries what rank 0 says; None when alone.
        """
        self.rank: Final = rank
        self.num_ranks: Final = num_ranks
        self._store = store
        self._num_said = 0

    @property
    def is_alone(self) -> bool:
        """Whether this process trains by itself."""
        return self.num_ranks == 1

    @property
    def is_first(self) -> bool:
        """Whether this process reports and keeps checkpoints."""
        return self.rank == 0

    def add_up(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all ranks."""
        if not self.is_alone:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def agree(self, value: Any) -> Any:
        """Return the value of rank 0, plain JSON, in every rank."""
        if self._store is None:
            return value
        key = f"said/{self._num_said}"
        self._num_said += 1
        if self.is_first:
            self._store.set(key, json.dumps(value))
            return value
        return json.loads(self._store.get(key))

    def share(self, state: TrainState, device: str) -> None:
        """Put the training of every rank where that of rank 0 is."""
        if self.is_alone:
            return
        data = _packed(state) if self.is_first else b""
        num_bytes = int(self.agree(len(data)))
        buffer = torch.empty(num_bytes, dtype=torch.uint8)
        if self.is_first:
            buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        buffer = buffer.to(device)
        dist.broadcast(buffer, src=0)
        if not self.is_first:
            _unpack(state, buffer.cpu().numpy().tobytes())

    def parallel(self, model: nn.Module, device: str) -> nn.Module:
        """Return what to call in training: the model, its gradients summed over the ranks."""
        if self.is_alone:
            return model
        on_gpu = torch.device(device).type == "cuda"
        return DistributedDataParallel(
            model, device_ids=[torch.device(device).index] if on_gpu else None
        )

    def unsynced(self, model: nn.Module, *, is_last_part: bool) -> AbstractContextManager[Any]:
        """Return the context of a part's forward and backward pass: gradients meet in the last."""
        if isinstance(model, DistributedDataParallel) and not is_last_part:
            return model.no_sync()
        return contextlib.nullcontext()


ALONE: Final = Ranks(0, 1, None)
"""A trial on one device."""


def _packed(state: TrainState) -> bytes:
    tensors, plain = state.capture()
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(kept, {"plain": json.dumps(plain)})


def _unpack(state: TrainState, data: bytes) -> None:
    header_size = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + header_size])["__metadata__"]
    plain = json.loads(metadata["plain"])
    # what rank 0 alone has, such as which checkpoint is the best, is none of the others' business
    state.restore(safetensors.torch.load(data), {name: plain[name] for name in state.names})


def rank_device(device: str, rank: int) -> str:
    """Return the device of a rank, given that of rank 0: the next of the same kind."""
    kind, _, index = device.partition(":")
    return f"{kind}:{int(index) + rank}" if index else device


@contextlib.contextmanager
def joined(
    rank: int, num_ranks: int, device: str, port: int, timeout: timedelta = TIMEOUT
) -> Iterator[Ranks]:
    """Be one of the ranks for as long as the context lasts; rank 0 opens the port.

    Args:
        rank: of this process.
        num_ranks: at least 2.
        device: of this process.
        port: on this machine, of rank 0.
        timeout: how long to wait for any other rank.
    """
    store = TCPStore("127.0.0.1", port, num_ranks, is_master=False, timeout=timeout)
    backend = "nccl" if torch.device(device).type == "cuda" else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, store=store, rank=rank, world_size=num_ranks, timeout=timeout)
    try:
        yield Ranks(rank, num_ranks, PrefixStore("hpo", store))
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def leading(
    asked: Mapping[str, Any], num_ranks: int, device: str, timeout: timedelta = TIMEOUT
) -> Iterator[Ranks]:
    """Start the other ranks of a trial and be rank 0; when the context ends, so do they.

    Args:
        asked: what every rank is to do, as plain JSON.
        num_ranks: processes in all; 1 starts none.
        device: of rank 0.
        timeout: how long a rank waits for another.

    Raises:
        RankDiedError: a rank ended before its time.
    """
    if num_ranks == 1:
        yield ALONE
        return
    server = TCPStore(
        "127.0.0.1", 0, num_ranks, is_master=True, wait_for_workers=False, timeout=timeout
    )
    document = {
        "asked": asked,
        "num_ranks": num_ranks,
        "port": server.port,
        "timeout_s": timeout.total_seconds(),
    }
    others = [_start({**document, "rank": rank}) for rank in range(1, num_ranks)]
    try:
        with joined(0, num_ranks, device, server.port, timeout) as ranks:
            yield ranks
        for process in others:
            process.wait(LEAVING_S)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise RankDiedError(_death(others, error)) from error
    finally:
        for process in others:
            process.kill()
            process.wait()
            _close(process.stdin)


def _start(document: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Start another rank; what it prints goes where this process prints."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen(  # this interpreter, this module
        [sys.executable, "-m", "hpo.training.rank"],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    if process.stdin is not None:
        process.stdin.write(json.dumps(document).encode() + b"\n")
        process.stdin.flush()  # stays open: its end tells the rank that this process is gone
    return process


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        with contextlib.suppress(BrokenPipeError):
            stream.close()


def _death(others: list[subprocess.Popen[bytes]], error: Exception) -> str:
    for rank, process in enumerate(others, 1):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_DYING_S)
        code = process.returncode
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            return f"process {rank} of {len(others) + 1} {how}; what it said is in the log above"
    return f"the processes of the trial lost each other: {error}"
