"""How many images a configuration has, as far as that is known before training."""

from hpo.training.catalog import IMAGE_SETS, SplitSizes, split_sizes
from hpo.training.origin.arrays import arrays_facts
from hpo.training.origin.folder import list_folder
from hpo.training.origin.origin import BadDataError, Origin, OriginKind, check_factory


def check_origin(origin: Origin) -> None:
    """Check everything about an origin that its names and headers tell.

    Raises:
        BadDataError: it cannot be trained on.
    """
    match origin.kind:
        case OriginKind.FOLDER:
            list_folder(origin.path)
        case OriginKind.ARRAYS:
            arrays_facts(origin.path)
        case OriginKind.FACTORY:
            check_factory(origin.place)
        case OriginKind.CATALOG:
            pass  # its files are checked together with data_root


def known_split_sizes(
    origin: Origin, val_fraction: float, test_fraction: float
) -> SplitSizes | None:
    """Return how many images each split gets, or None where only reading the images can tell."""
    try:
        match origin.kind:
            case OriginKind.CATALOG:
                image_set = IMAGE_SETS[origin.place]
                return split_sizes(
                    image_set.num_images, image_set.num_test, val_fraction, test_fraction
                )
            case OriginKind.FOLDER:
                splits = list_folder(origin.path).splits
                return _given_sizes(splits, val_fraction, test_fraction)
            case OriginKind.ARRAYS:
                facts = arrays_facts(origin.path)
                if facts.has_splits:
                    return None
                return split_sizes(facts.num_images, None, val_fraction, test_fraction)
            case OriginKind.FACTORY:
                return None
    except BadDataError:
        return None  # told by the check of `data`


def _given_sizes(splits: tuple[str, ...], val_fraction: float, test_fraction: float) -> SplitSizes:
    num_val, num_test = splits.count("val"), splits.count("test")
    num_images = len(splits) - num_val - num_test
    drawn = split_sizes(
        num_images, num_test or None, 0 if num_val else val_fraction, test_fraction
    )
    return SplitSizes(
        num_train=drawn.num_train, num_val=drawn.num_val + num_val, num_test=drawn.num_test
    )
