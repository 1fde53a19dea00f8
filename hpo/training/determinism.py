"""The only place that seeds. Every random draw of a trial comes from one of its named streams.

Nothing draws from torch's global generator, so that adding a draw to one part of the training
never moves the draws of another.
"""

import hashlib
import os
from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from hpo.training.log import say

STREAM_NAMES: Final = ("init", "data_order", "augmentation", "dropout")
"""Initial weights, order of the examples, augmentation, dropped units."""


def seeded_generator(seed: int, device: str = "cpu") -> torch.Generator:
    """Return a new generator on `device`, seeded with 0 to 2**63 - 1."""
    return torch.Generator(device=device).manual_seed(seed)


class RandomStreams:
    """The named generators of one trial.

    Dropout draws on the training device; the others draw on the CPU, so that initial weights,
    order and augmentation are the same on every device.
    """

    def __init__(self, seeds: Mapping[str, int], device: str = "cpu") -> None:
        """Seed every stream.

        Args:
            seeds: one for each name of `STREAM_NAMES`; other names are ignored.
            device: where dropout draws.
        """
        self._seeds = dict(seeds)
        self.init: Final = seeded_generator(seeds["init"])
        self.data_order: Final = seeded_generator(seeds["data_order"])
        self.augmentation: Final = seeded_generator(seeds["augmentation"])
        self.dropout: Final = seeded_generator(seeds["dropout"], device)

    def begin_epoch(self, epoch: int, rank: int) -> None:
        """Give the processes that train along with rank 0 draws of their own.

        They see other images of a batch, which are varied and dropped otherwise than those of
        rank 0. Their streams begin anew with each epoch, so that no checkpoint needs to hold them.
        """
        if rank == 0:
            return
        for name in ("augmentation", "dropout"):
            text = f"{self._seeds[name]} {name} {rank} {epoch}"
            digest = hashlib.sha256(text.encode()).digest()
            self._stream(name).manual_seed(int.from_bytes(digest[:8], "big") >> 1)

    def state_dict(self) -> dict[str, Tensor]:
        """Return where every stream stands."""
        return {name: self._stream(name).get_state() for name in STREAM_NAMES}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Put every stream where `state_dict` found it."""
        for name in STREAM_NAMES:
            self._stream(name).set_state(state[name])

    def _stream(self, name: str) -> torch.Generator:
        stream: torch.Generator = getattr(self, name)
        return stream


def configure_threads(num_threads: int) -> None:
    """Let torch compute on `num_threads` CPU threads; sums differ between thread counts."""
    torch.set_num_threads(num_threads)


def configure_device(device: str, *, is_deterministic: bool = True) -> None:
    """Make `device` repeat itself, or let it choose its fastest algorithms.

    On the CPU there is nothing to do. Call it before the first tensor is put on a GPU: cuBLAS
    reads its workspace setting once.
    """
    if torch.device(device).type != "cuda":
        return
    torch.backends.cudnn.benchmark = not is_deterministic
    torch.use_deterministic_algorithms(is_deterministic)
    if not is_deterministic:
        say(
            "deterministic: false, the fastest algorithms are tried out at the start; equal trials"
            " differ in their last bits, and a resumed trial is not the uninterrupted one"
        )
        return
    say(
        "deterministic: true, equal trials give equal bits; algorithms that add up in any order"
        " are not used, which may cost a fifth of the speed"
    )
    # https://docs.nvidia.com/cuda/cublas/#results-reproducibility
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # Filling costs time and would only hide reads of memory that nobody wrote.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
