"""Images from a function of the user's: `data: package.module:function`.

The function takes no argument and returns an object with

1. `len(it)`: the number of images, and `it[index]`: a pair of image and label. An image is a
   uint8 or float tensor or array, C H W or H W or H W C, or a Pillow image. A label is a class
   index from 0, a number, or a row of numbers. Equal indices must give equal pairs: images are
   decoded once and kept, and variation belongs to the `augment` keys.
2. optionally `classes`: names by class index,
3. optionally `splits`: for each index `train`, `val`, `test` or an empty text (to divide),
4. optionally `targets`: all labels by index, so that they need not be read with the images.

A `torch.utils.data.Dataset` of torchvision without transforms is such an object. The module is
looked for in the current folder first. The function is called again whenever a study begins.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpo.training.data.source import BadImageError, SourceFacts, all_to_divide
from hpo.training.data.sources.targets import read_targets
from hpo.training.origin.origin import SPLIT_NAMES, BadDataError, user_folder_first


def open_factory(place: str) -> "FactorySource":
    """Call a factory and look at what it returned.

    Raises:
        BadDataError: it cannot be imported or called, or returned something else.
    """
    module_name, _, function_name = place.partition(":")
    user_folder_first()
    try:
        function = getattr(importlib.import_module(module_name), function_name)
        images = function()
        num_images = len(images)
        first = images[0]
    except Exception as error:  # the user's code may raise anything
        raise BadDataError(
            f"names {place}, which raised {type(error).__name__}: {error}"
        ) from error
    if not num_images or not isinstance(first, Sequence) or len(first) != 2:
        raise BadDataError(
            f"names {place}, whose result is no set of pairs: it must have a length, and an image"
            " and a label at each index"
        )
    return FactorySource(images, place)


class FactorySource:
    """What a factory returned; fulfils `Source`."""

    def __init__(self, images: Any, place: str) -> None:
        """Read every label.

        Raises:
            BadDataError: a label cannot be trained on.
        """
        self._images = images
        num_images = len(images)
        if hasattr(images, "targets"):
            labels = np.asarray(images.targets)
        else:
            labels = np.asarray([images[index][1] for index in range(num_images)])
        names = tuple(str(name) for name in images.classes) if hasattr(images, "classes") else None
        if labels.dtype.kind not in "iubf" or labels.ndim not in (1, 2):
            raise BadDataError(f"names {place}, whose labels are no numbers or rows of numbers")
        targets = read_targets(labels, names, place)
        given_N = all_to_divide(num_images)
        for index, split in enumerate(getattr(images, "splits", ())):
            if split:
                given_N[index] = SPLIT_NAMES.index(split)
        self._facts = SourceFacts(
            targets=targets.values,
            target_kind=targets.kind,
            class_labels=targets.class_labels,
            given_splits_N=given_N,
            pixel_scale=255.0 if self.read(0).dtype == torch.uint8 else 1.0,
        )

    @property
    def facts(self) -> SourceFacts:
        """Targets, classes and given splits, by index."""
        return self._facts

    def read(self, index: int) -> Tensor:
        """Return image_CHW, uint8 or float32.

        Raises:
            BadImageError: the user's object raised, or gave no image.
        """
        try:
            image = self._images[index][0]
            pixels = image if isinstance(image, Tensor) else torch.from_numpy(np.array(image))
        except Exception as error:  # the user's code may raise anything
            raise BadImageError(f"{type(error).__name__}: {error}"[:200]) from error
        if pixels.ndim == 2:
            pixels = pixels.unsqueeze(0)
        if pixels.ndim != 3:
            raise BadImageError(f"it has shape {tuple(pixels.shape)}, must be C x H x W")
        if pixels.shape[0] not in (1, 3) and pixels.shape[2] in (1, 3):
            pixels = pixels.permute(2, 0, 1)
        return pixels if pixels.dtype == torch.uint8 else pixels.float()

    def name(self, index: int) -> str:
        """Return the image's place."""
        return f"image {index}"
