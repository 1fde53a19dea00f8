"""Looking at one training closely: slow, and it stops at the first number that is not finite."""

import contextlib
from collections.abc import Iterator

import torch

from hpo.training.layers import refusing_non_finite


@contextlib.contextmanager
def debugging() -> Iterator[None]:
    """Check every layer's output going forward and every gradient going backward.

    Raises:
        NonFiniteLayerError: within the context, where a layer gives a NaN or an infinity.
        RuntimeError: within the context, where a gradient is NaN; its text, and the traceback of
            the forward call on stderr, name the operation.
    """
    with torch.autograd.set_detect_anomaly(True), refusing_non_finite():
        yield
