"""The image sets that the built-in classifier knows: sizes, classes, files. No framework here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSet:
    """What is known of an image set before a byte of it is read."""

    name: str
    """As written under `data`."""
    num_images: int
    """Images that training and validation (and the test split, where none is given) share."""
    num_test: int | None
    """Images of its own test split; None where the test split is drawn from `num_images`."""
    class_labels: tuple[str, ...]
    """For people, by class index."""
    image_shape: tuple[int, int, int]
    """Channels, height, width."""
    pixel_scale: float
    """The largest raw pixel value."""
    folder: str = ""
    """Where its files lie below `data_root`, as torchvision lays them."""
    files: tuple[str, ...] = ()
    """Files of `folder`, each perhaps with `.gz` where `is_gzip_allowed`; none: installed."""
    is_gzip_allowed: bool = False

    def missing_files(self, data_root: Path) -> list[Path]:
        """Return the files that are not below `data_root`, in the order of `files`."""
        paths = [data_root / self.folder / name for name in self.files]
        return [path for path in paths if not self._is_there(path)]

    def _is_there(self, path: Path) -> bool:
        return path.is_file() or (
            self.is_gzip_allowed and path.with_name(f"{path.name}.gz").is_file()
        )


_DIGIT_LABELS = tuple("0123456789")
_IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)

_CIFAR100_LABELS = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus"
    " butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach"
    " couch crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster"
    " house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree"
    " motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear"
    " pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket"
    " rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar"
    " sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip"
    " turtle wardrobe whale willow_tree wolf woman worm"
)

IMAGE_SETS: Mapping[str, ImageSet] = {
    image_set.name: image_set
    for image_set in (
        ImageSet(
            name="digits",
            num_images=1797,
            num_test=None,
            class_labels=_DIGIT_LABELS,
            image_shape=(1, 8, 8),
            pixel_scale=16.0,
        ),
        ImageSet(
            name="mnist",
            num_images=60_000,
            num_test=10_000,
            class_labels=_DIGIT_LABELS,
            image_shape=(1, 28, 28),
            pixel_scale=255.0,
            folder="MNIST/raw",
            files=_IDX_FILES,
            is_gzip_allowed=True,
        ),
        ImageSet(
            name="fashion_mnist",
            num_images=60_000,
            num_test=10_000,
            class_labels=(
                "t-shirt/top",
                "trouser",
                "pullover",
                "dress",
                "coat",
                "sandal",
                "shirt",
                "sneaker",
                "bag",
                "ankle boot",
            ),
            image_shape=(1, 28, 28),
            pixel_scale=255.0,
            folder="FashionMNIST/raw",
            files=_IDX_FILES,
            is_gzip_allowed=True,
        ),
        ImageSet(
            name="cifar10",
            num_images=50_000,
            num_test=10_000,
            class_labels=(
                "airplane",
                "automobile",
                "bird",
                "cat",
                "deer",
                "dog",
                "frog",
                "horse",
                "ship",
                "truck",
            ),
            image_shape=(3, 32, 32),
            pixel_scale=255.0,
            folder="cifar-10-batches-py",
            files=(
                *(f"data_batch_{index}" for index in range(1, 6)),
                "test_batch",
                "batches.meta",
            ),
        ),
        ImageSet(
            name="cifar100",
            num_images=50_000,
            num_test=10_000,
            class_labels=tuple(_CIFAR100_LABELS.split()),
            image_shape=(3, 32, 32),
            pixel_scale=255.0,
            folder="cifar-100-python",
            files=("train", "test", "meta"),
        ),
        ImageSet(
            name="svhn",
            num_images=73_257,
            num_test=26_032,
            class_labels=_DIGIT_LABELS,
            image_shape=(3, 32, 32),
            pixel_scale=255.0,
            files=("train_32x32.mat", "test_32x32.mat"),
        ),
    )
}
"""Every known image set by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSizes:
    """How many images each split gets."""

    num_train: int
    num_val: int
    num_test: int


def split_sizes(
    num_images: int, num_test: int | None, val_fraction: float, test_fraction: float
) -> SplitSizes:
    """Return the sizes of the splits.

    Args:
        num_images: images to divide.
        num_test: images of a test split that exists already; None where it is to be drawn.
        val_fraction: of `num_images`, above 0.
        test_fraction: of `num_images`, above 0; unused where `num_test` is given.
    """
    num_val = round(num_images * val_fraction)
    drawn_test = round(num_images * test_fraction) if num_test is None else 0
    return SplitSizes(
        num_train=num_images - num_val - drawn_test,
        num_val=num_val,
        num_test=drawn_test if num_test is None else num_test,
    )
