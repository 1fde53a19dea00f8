"""The keys that say which data is trained on, how it is divided and how it is loaded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from hpo.training.catalog import IMAGE_SETS, SplitSizes
from hpo.training.keys.key import Check, Keys, OnlyWith, Whole
from hpo.training.origin.known import check_origin, known_split_sizes
from hpo.training.origin.origin import BadDataError, Origin, OriginKind, parse_origin


def _named_data(data: str) -> str:
    try:
        parse_origin(data)
    except BadDataError as error:
        raise ValueError(str(error)) from error
    return data


class DataKeys(Keys):
    """Which data, how it is divided, and how it is loaded."""

    data: Annotated[str, AfterValidator(_named_data)] = Field(
        description=f"one of {', '.join(IMAGE_SETS)}; or folder:PATH (class folders, also below"
        " train, val and test), arrays:FILE.npz (images, labels), package.module:function;"
        " digits comes with scikit-learn, the other names lie under data_root",
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
    resplit: bool = Field(
        default=False,
        description="Whether each replicate draws its own train and val split, so that intervals"
        " include the luck of the split; the test split stays",
    )
    image_size: Whole = Field(
        default=0,
        ge=0,
        le=1024,
        description="Side in pixels that every image is scaled to and cropped to a square at the"
        " centre, up to 1024; 0: as it comes",
    )
    sampling: Literal["uniform", "balanced"] = Field(
        default="uniform",
        description="How an epoch draws training images: each once, or with replacement so that"
        " every class is equally frequent",
    )
    on_bad_image: Literal["fail", "skip"] = Field(
        default="fail",
        description="What happens when an image cannot be decoded; either way each is named",
    )
    loader_mode: Literal["auto", "resident", "streaming"] = Field(
        default="auto",
        alias="loader.mode",
        description="Images held whole on the device, or read batch by batch; auto: resident"
        " where they fit; never changes a result",
    )
    loader_workers: Whole = Field(
        default=-1,
        ge=-1,
        le=64,
        alias="loader.workers",
        description="Processes that read batches when streaming, 0 to 64; -1: measured; never"
        " changes a result",
    )
    loader_prefetch: Whole = Field(
        default=2,
        ge=1,
        le=64,
        alias="loader.prefetch",
        description="Batches that each worker reads ahead, 1 to 64",
    )
    loader_pin_memory: bool = Field(
        default=True,
        alias="loader.pin_memory",
        description="Whether a GPU is fed from page-locked memory when streaming",
    )
    loader_persistent_workers: bool = Field(
        default=True,
        alias="loader.persistent_workers",
        description="Whether workers live from epoch to epoch",
    )
    loader_non_blocking: bool = Field(
        default=True,
        alias="loader.non_blocking",
        description="Whether copies from page-locked memory overlap with computing",
    )
    loader_drop_last: bool = Field(
        default=False,
        alias="loader.drop_last",
        description="Whether an epoch leaves out its last batch where that is not full",
    )

    @property
    def origin(self) -> Origin:
        """What `data` names."""
        return parse_origin(self.data)

    def split_sizes(self) -> SplitSizes | None:
        """Return how many images each split gets; None where only reading them can tell."""
        return known_split_sizes(self.origin, self.val_fraction, self.test_fraction)


def _check_files(config: DataKeys) -> Iterator[str]:
    if config.download or config.origin.kind is not OriginKind.CATALOG:
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


def _check_data(config: DataKeys) -> Iterator[str]:
    try:
        check_origin(config.origin)
    except BadDataError as error:
        yield str(error)


CHECKS: Final[tuple[Check, ...]] = (
    (("data",), _check_data),
    (("data_root", "data", "download"), _check_files),
)

_STREAMED: Final = ("loader.mode", ("auto", "streaming"))

ONLY_WITH: Final[OnlyWith] = {
    "loader.workers": _STREAMED,
    "loader.prefetch": _STREAMED,
    "loader.pin_memory": _STREAMED,
    "loader.persistent_workers": _STREAMED,
    "loader.non_blocking": _STREAMED,
}
