"""Numbers for the places of rows without a token of a document."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from ..core.arguments import check_int
from ..errors import InvalidArgument

Numbers: TypeAlias = "float | Mapping[str, float | None]"

LEAST: Final = -(2**63)
MOST: Final = 2**64 - 1
"""The range of integer dtypes."""


def check_numbers(name: str, value: Any, may_be_none: Container[str] = ()) -> Numbers:
    """Return ``value`` with Python numbers.

    Args:
      name: of the argument.
      value: to check.
      may_be_none: the fields allowed to be None in a mapping.

    Raises:
      InvalidType: if ``value`` is neither a number nor a mapping of names to numbers.
      InvalidArgument: if a number is NaN, or an integer that no dtype can hold.
    """
    if isinstance(value, Mapping):
        return {
            field: None
            if each is None and field in may_be_none
            else _check_number(f"{name}[{field!r}]", each)
            for field, each in value.items()
        }
    return _check_number(name, value)


def _check_number(name: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if not isinstance(value, (float, np.floating)):
        return check_int(name, value, minimum=LEAST, maximum=MOST)
    if value != value:
        raise InvalidArgument(f"{name} must be a number, got nan")
    return float(value)


def filling(argument: str, numbers: Numbers, field: str, dtype: np.dtype[Any]) -> Any:
    """The value of ``argument`` for a field, as an array without axes; 0 is the zero of any dtype.

    Raises:
      InvalidArgument: if the field has no value, or ``dtype`` cannot hold the value.
    """
    if isinstance(numbers, Mapping):
        if field not in numbers:
            raise InvalidArgument(
                f"{argument} must have a value for each field, got none for {field!r}"
            )
        value = numbers[field] or 0
    else:
        value = numbers
    if not value:
        return np.zeros((), dtype)
    if not _fits(value, dtype):
        raise InvalidArgument(
            f"{argument} must fit the tokens of {field!r}, which are {dtype}, got {value}"
        )
    return np.full((), value).astype(dtype)


def _fits(value: float, dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` holds ``value``, rounded if ``dtype`` is a floating-point dtype."""
    if dtype.kind == "b":
        return value == 1
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return value == value // 1 and limits.min <= value <= limits.max
    if dtype.kind in "fc":
        with np.errstate(over="ignore"):
            return not np.isinf(np.full((), value).astype(dtype)) or abs(value) == np.inf
    try:  # a dtype of another package, such as bfloat16, which NumPy says nothing else about
        np.full((), value).astype(dtype)
    except (TypeError, ValueError):
        return False
    return dtype.isbuiltin == 2
