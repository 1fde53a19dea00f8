"""Whether this machine can train: what torch finds, and whether its kernels give right numbers."""

from typing import Any, Final

import torch
import torchvision
from torch.nn import functional

from hpo.training.determinism import seeded_generator

_SIDE: Final = 128
_TOLERANCE: Final = 1e-2
"""Of the largest value. TF32 keeps 10 bits; a wrong or missing kernel is off by the whole."""


def describe_torch() -> dict[str, Any]:
    """Return versions, and what torch says of the GPUs of this process."""
    is_available = torch.cuda.is_available()
    return {
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "cuda_build": torch.version.cuda,
        "num_gpus": torch.cuda.device_count() if is_available else 0,
        "architectures": torch.cuda.get_arch_list() if is_available else [],
    }


def run_kernels(device: str) -> dict[str, Any]:
    """Multiply, convolve and go backward on a device, compare with the CPU, say what it is.

    Raises:
        RuntimeError: a kernel does not run, or gives wrong numbers.
    """
    generator = seeded_generator(0)
    left = torch.randn(_SIDE, _SIDE, generator=generator)
    images = torch.randn(4, 3, 16, 16, generator=generator)
    filters = torch.randn(8, 3, 3, 3, generator=generator)
    for name, there, here in (
        ("a matrix product", _product(left.to(device)), _product(left.double())),
        (
            "a convolution and its gradient",
            _gradient(images.to(device), filters.to(device)),
            _gradient(images.double(), filters.double()),
        ),
        ("torchvision's box filter", _kept(device), _kept("cpu")),
    ):
        error = float((there.double().cpu() - here.double()).abs().max())
        if not error <= _TOLERANCE * float(here.abs().max()):
            raise RuntimeError(f"{name} on {device} is off by {error:.3g}")
    if torch.device(device).type != "cuda":
        return {"name": device, "total_bytes": None, "free_bytes": None, "capability": None}
    free_bytes, total_bytes = torch.cuda.mem_get_info(device)
    major, minor = torch.cuda.get_device_capability(device)
    return {
        "name": torch.cuda.get_device_name(device),
        "total_bytes": total_bytes,
        "free_bytes": free_bytes,
        "capability": f"{major}.{minor}",
    }


def _product(left: torch.Tensor) -> torch.Tensor:
    return left @ left.T


def _gradient(images_NCHW: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    filters = filters.detach().clone().requires_grad_()
    functional.conv2d(images_NCHW, filters, padding=1).square().mean().backward()  # type: ignore[no-untyped-call]
    if filters.grad is None:
        raise RuntimeError("a convolution gives no gradient")
    return filters.grad


def _kept(device: str) -> torch.Tensor:
    """Return which of three boxes torchvision's own compiled code keeps."""
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 5], [9, 9, 12, 12]], device=device)
    scores = torch.tensor([0.9, 0.8, 0.7], device=device)
    kept: torch.Tensor = torchvision.ops.nms(boxes, scores, 0.5)
    return kept
