"""How much memory a training takes."""

import resource
import sys

import torch
from torch import nn

_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Of `ru_maxrss`: bytes on macOS, KiB on Linux."""


def peak_memory_bytes(model: nn.Module) -> float:
    """Return the most that this process has held: of the model's GPU, or else of the machine."""
    device = next(model.parameters()).device
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT)
