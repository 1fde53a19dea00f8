"""The third layer: examples of one split, handed out in batches on the training device.

Shapes: N images, K target columns, C channels, H height, W width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Bounds = Sequence[tuple[int, int]]
"""Start and end of each batch within an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some images and their targets, on the training device."""

    images_NCHW: Tensor  # noqa: N815  # a shape suffix
    """Raw pixels: uint8, or float32 where the data has floats."""
    labels_N: Tensor  # noqa: N815  # a shape suffix
    """int64 (N,) class indices, or float32 (N, K)."""


class Examples(Protocol):
    """One split.

    1. `batches` gives image `order_N[i]` at place i, for every i within the bounds, in order.
    2. It draws nothing and changes no pixel: equal arguments give equal batches, however the
       images are held and however many workers read them.
    3. One iterator of a data set lives at a time; to leave one early, drop it.
    """

    @property
    def images_NCHW(self) -> Tensor:  # noqa: N802  # a shape suffix
        """All images, on the training device."""
        ...

    @property
    def labels_N(self) -> Tensor:  # noqa: N802  # a shape suffix
        """The targets of all images, on the training device."""
        ...

    def __len__(self) -> int:
        """Return the number of images."""
        ...

    def batches(self, bounds: Bounds, order_N: Tensor | None = None) -> Iterator[Batch]:
        """Yield a batch for each start and end.

        Args:
            bounds: of each batch, as `batch_bounds` gives them.
            order_N: int64 indices into the split; None is the order it is stored in.
        """
        ...


def batch_bounds(
    num_examples: int, batch_size: int, *, drop_last: bool = False
) -> Iterator[tuple[int, int]]:
    """Yield start and end of each batch, in order, so that every example is in one.

    The last batch may be short; `drop_last` leaves it out, unless it is the only one. A rest of a
    single example joins the batch before it: batch norm would make a batch of its own meaningless.
    """
    if drop_last and num_examples >= batch_size:
        num_examples -= num_examples % batch_size
    start = 0
    while start < num_examples:
        end = min(start + batch_size, num_examples)
        if batch_size > 1 and num_examples - end == 1:
            end = num_examples
        yield start, end
        start = end
