"""`DataCard`: what a prepared image set is, without its pixels."""

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCard:
    """A prepared image set and its split. Decides a model's shape and normalisation."""

    name: str
    """As written under `data`."""
    fingerprint: str
    """sha256 over pixels, labels and the indices of the split."""
    num_train: int
    num_val: int
    num_test: int
    num_classes: int
    """Classes, or columns of the targets: what a model has outputs for."""
    class_labels: tuple[str, ...]
    """For people, by class index or target column."""
    image_shape: tuple[int, int, int]
    """Channels, height, width."""
    pixel_scale: float
    """The largest raw pixel value: 16 for digits, 255 for other bytes, 1 for floats."""
    mean: tuple[float, ...]
    """By channel, of the training split's pixels divided by `pixel_scale`."""
    std: tuple[float, ...]
    """By channel, likewise; 1 where all pixels are equal."""
    target_kind: str = "class"
    """`class`, `multilabel`, `soft` or `regression`, as `hpo.training.data.source` has them."""
    class_counts: tuple[int, ...] = ()
    """Images of the training split by class; empty where targets are no class indices."""
    num_skipped: int = 0
    """Images that cannot be decoded and belong to no split."""
    pixel_dtype: str = "uint8"
    """`uint8`, or `float32` where the data has floats."""

    def to_json(self) -> str:
        """Return the card as one line of JSON."""
        return json.dumps(asdict(self), sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "DataCard":
        """Read what `to_json` wrote.

        Raises:
            ValueError: `text` is no JSON object, or its fields are not those of a card.
        """
        fields: dict[str, Any] = json.loads(text)
        try:
            plain: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in fields.items()
            }
            return cls(**plain)
        except (AttributeError, TypeError) as error:
            raise ValueError(f"this is no data card: {error}") from error
