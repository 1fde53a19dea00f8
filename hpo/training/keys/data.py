"""The keys that say which data is trained on, and how it is divided."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from hpo.training.catalog import IMAGE_SETS, SplitSizes, split_sizes
from hpo.training.keys.key import Check, Keys, OnlyWith


class DataKeys(Keys):
    """Which data, and how it is divided."""

    data: Literal["digits", "mnist", "fashion_mnist", "cifar10"] = Field(
        description="Image set; digits comes with scikit-learn, the others lie under data_root",
    )
    data_root: str = Field(
        default="data",
        min_length=1,
        description="Folder of torchvision image sets, relative to the current folder",
    )
    download: bool = Field(
        default=False, description="Whether to download an image set that is not under data_root"
    )
    val_fraction: float = Field(
        default=0.15, ge=0.01, le=0.4, description="Share of images for validation, 0.01 to 0.4"
    )
    test_fraction: float = Field(
        default=0.15,
        ge=0.01,
        le=0.4,
        description="Share of images for testing, 0.01 to 0.4; unused where the set has its own"
        " test split",
    )

    def split_sizes(self) -> SplitSizes:
        """Return how many images each split gets."""
        image_set = IMAGE_SETS[self.data]
        return split_sizes(
            image_set.num_images, image_set.num_test, self.val_fraction, self.test_fraction
        )


def _check_files(config: DataKeys) -> Iterator[str]:
    if config.download:
        return
    image_set = IMAGE_SETS[config.data]
    root = Path(config.data_root)
    missing = image_set.missing_files(root)
    if not missing:
        return
    remedy = f"write download: true, or put the files of {config.data} into"
    place = f"{root / image_set.folder} ({', '.join(image_set.files)}"
    place += ", each may end in .gz)" if image_set.is_gzip_allowed else ")"
    if not root.is_dir():
        yield f"is '{root}', which is no folder here; {remedy} {place}"
    else:
        yield f"is '{root}', which lacks {missing[0].relative_to(root)}; {remedy} {place}"


CHECKS: Final[tuple[Check, ...]] = ((("data_root", "data", "download"), _check_files),)

ONLY_WITH: Final[OnlyWith] = {}
