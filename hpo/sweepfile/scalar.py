"""Text -> value by the YAML 1.2 core schema, where numbers are as people write them.

`1e-3` is a number, `no` is text, `3:30` is text, `0x10` is 16.
Source: YAML 1.2.2, section 10.3.2.
Differs: `010` and numbers that are not finite are refused rather than guessed at.
"""

import math
import re

from hpo.domain.search_space import Value

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+", re.ASCII)
_OCTAL = re.compile(r"0o[0-7]+", re.ASCII)
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII)

_LONGEST_NUMBER = 64
"""Characters; keeps every whole number within the range of a float."""


def resolve(text: str) -> Value | None:
    """Return the value of an unquoted scalar.

    Raises:
        ValueError: it looks like a number but cannot be used as one; says what to write.
    """
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    number = _number(text)
    return text if number is None else number


def _number(text: str) -> int | float | None:
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"is {text}, write a finite number")
    base = 16 if _HEXADECIMAL.fullmatch(text) else 8 if _OCTAL.fullmatch(text) else 10
    is_integer = base != 10 or _INTEGER.fullmatch(text) is not None
    if not is_integer and not _FLOAT.fullmatch(text):
        return None
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"is a number of {len(text)} characters, write a shorter one")
    if _LEADING_ZERO.fullmatch(text):
        raise ValueError(
            f"is {text}, which some programs read as octal, write {int(text)}"
            f' (or "{text}" in quotes for text)'
        )
    if is_integer:
        return int(text[2:], base) if base != 10 else int(text)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"is {text}, which is too large, write a finite number")
    return number + 0.0  # -0.0 is 0.0: one value, one content hash


def looks_numeric(text: str) -> bool:
    """Tell whether `text` would be a number without its quotes."""
    try:
        value = resolve(text)
    except ValueError:
        return False
    return isinstance(value, int | float) and not isinstance(value, bool)


def suggest_number(text: str) -> str | None:
    """Return the number that was probably meant by `text`, as to write it, or None.

    Knows `1_000`, `1,000`, `0,5`, `10%` and `1e-3` within stray quotes or spaces.
    """
    bare = text.strip().strip("'\"")
    if re.fullmatch(r"[-+]?\d*,(\d{1,2}|\d{4,})", bare, re.ASCII):  # a decimal comma
        bare = bare.replace(",", ".")
    plain = bare.replace("_", "").replace(",", "").replace(" ", "")
    if plain.endswith("%") and looks_numeric(plain[:-1]):
        return f"{float(plain[:-1]) / 100:g}"
    return plain if looks_numeric(plain) else None
