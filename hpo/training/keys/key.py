"""What every group of keys is made of.

A group is a `Keys` class whose fields are keys of the sweep file, and beside it in the same file
`CHECKS`, what several keys must fulfil together, and `ONLY_WITH`, which keys are read only where
another has one of some values.

A key with a dot, such as `augment.erasing`, is a field whose alias is the key:
`augment_erasing: float = Field(default=0.0, alias="augment.erasing", ...)`. A sweep file writes
it nested or with its dot; both arrive here with the dot, and the field's own name is no key.
A default of None would make a key required, so "off" is a value: 0, `none` or an empty text.
A list is text, separated by commas: `head, features.0`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.fields import FieldInfo

from hpo.domain.search_space import Value


def _whole(value: object) -> object:
    """Turn 64.0 into 64: YAML and numeric search spaces may write a whole number either way."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number, however it is written."""


class Keys(BaseModel):
    """A group of keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


Check = tuple[tuple[str, ...], Callable[[Any], Iterator[str]]]
"""The keys that a check reads, and what finds their problems, each pointing at the first key."""

OnlyWith = Mapping[str, tuple[str, tuple[Value, ...]]]
"""By key: another key, and the values of which it must have one for this key to be read."""


def fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a group by the key as it is written, in the order declared."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def parts(text: str) -> tuple[str, ...]:
    """Return the items of a list written as text, without the spaces around them."""
    return tuple(item.strip() for item in text.split(",") if item.strip())
