"""MixUp and CutMix: images made of two, with labels made of two.

Shapes: N images, C channels, H height, W width, K classes.
"""

from typing import Final

import torch
from torch import Tensor

from hpo.training.augmentation.erasing import rectangles

_NUM_STEPS: Final = 2048
"""Of the table that turns an even draw into one of a beta distribution."""


class BetaTable:
    """The beta distribution with both parameters alpha, drawn from any generator."""

    def __init__(self, alpha: float) -> None:
        # most trials mix nothing and need not wait for it
        from scipy.special import betaincinv  # noqa: PLC0415

        steps = (torch.arange(_NUM_STEPS, dtype=torch.float64) + 0.5) / _NUM_STEPS
        self._quantiles = torch.from_numpy(betaincinv(alpha, alpha, steps.numpy())).float()

    def __call__(self, draws_N: Tensor) -> Tensor:
        """Return draws of the distribution for draws that are even from 0 to below 1."""
        places_N = (draws_N * _NUM_STEPS - 0.5).clamp(0, _NUM_STEPS - 1)
        below_N = places_N.long().clamp(max=_NUM_STEPS - 2)
        low_N, high_N = self._quantiles[below_N], self._quantiles[below_N + 1]
        return torch.lerp(low_N, high_N, places_N - below_N)


class Mixing:
    """Mixes each image of a batch with another one of it.

    The other is that at the same place of a random order of the batch. MixUp adds the share
    lambda of the image to 1 - lambda of the other, lambda drawn for each image from Beta(alpha,
    alpha). CutMix pastes a rectangle of the other, of the share 1 - lambda where it lies inside
    of the image; what is outside is cut off and lambda is what was really kept. Labels are mixed
    by the same lambda. With both, a fair coin chooses for each batch.

    Source: Zhang et al. 2018, "mixup", section 2; Yun et al. 2019, "CutMix", section 3.1.
    Differs: lambda is drawn for each image, not for each batch.
    """

    def __init__(self, mixup: float, cutmix: float, generator: torch.Generator) -> None:
        """Hold the stream to draw from.

        Args:
            mixup: alpha of MixUp, 0 for none.
            cutmix: alpha of CutMix, 0 for none; one of the two is above 0.
            generator: on the CPU.
        """
        self._mixup = BetaTable(mixup) if mixup else None
        self._cutmix = BetaTable(cutmix) if cutmix else None
        self._generator = generator

    def __call__(
        self, images_NCHW: Tensor, targets: Tensor, num_classes: int
    ) -> tuple[Tensor, Tensor]:
        """Return mixed images and targets.

        Args:
            images_NCHW: float pixels.
            targets: int64 labels_N, which become float32 targets_NK, or float targets.
            num_classes: K.
        """
        num_images = len(images_NCHW)
        order_N = torch.randperm(num_images, generator=self._generator)
        draws_N3 = torch.rand(num_images, 3, generator=self._generator)
        is_cut = self._cutmix is not None
        if self._mixup is not None and is_cut:
            is_cut = bool(torch.rand((), generator=self._generator) < 0.5)
        table = self._cutmix if is_cut else self._mixup
        if table is None:
            raise ValueError("neither MixUp nor CutMix has an alpha")
        kept_N = table(draws_N3[:, 0])
        order_N = order_N.to(images_NCHW.device)
        others_NCHW = images_NCHW.index_select(0, order_N)
        if is_cut:
            sides_N2 = (1 - kept_N).sqrt().unsqueeze(1).expand(-1, 2)
            mask_N1HW, pasted_N = rectangles(sides_N2, draws_N3[:, 1:], *images_NCHW.shape[2:])
            kept_N = 1 - pasted_N
            images_NCHW = torch.where(mask_N1HW.to(images_NCHW.device), others_NCHW, images_NCHW)
        else:
            weights = kept_N.to(images_NCHW.device).reshape(-1, 1, 1, 1)
            images_NCHW = torch.lerp(others_NCHW, images_NCHW, weights)
        if not targets.is_floating_point():
            rows_NK = torch.zeros(num_images, num_classes, device=targets.device)
            targets = rows_NK.scatter_(1, targets.unsqueeze(1), 1.0)
        weights = kept_N.to(targets.device).reshape(-1, *[1] * (targets.ndim - 1))
        return images_NCHW, torch.lerp(targets.index_select(0, order_N), targets, weights)
