"""Compare items bit for bit, and name the first difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..errors import shorten
from .digest import array_bytes, item_digest

PLAIN: Final = frozenset({int, str, bytes, bool, type(None)})
"""Types compared by value alone: most items have such a type."""

NOTHING: Final = "nothing"
"""Stands for a missing item."""


class ItemsDiffer(AssertionError):
    """The first unexpected item.

    Attributes:
      number: of the item in the whole run.
      expected: the item; `NOTHING` for an extra item.
      got: the actual item; `NOTHING` if missing.
    """

    def __init__(self, message: str, number: int, expected: Any, got: Any) -> None:
        super().__init__(message)
        self.number = number
        self.expected = expected
        self.got = got


def same(left: Any, right: Any) -> bool:
    """Equal in value, type, dtype and shape, bit for bit.

    Objects without an equality of their own are equal if `item_digest` is.
    """
    if type(left) is not type(right):
        return False
    if type(left) in PLAIN:
        return bool(left == right)
    if isinstance(left, (np.ndarray, np.generic)):
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        if left.dtype.hasobject:
            return same(left.tolist(), right.tolist())
        return array_bytes(left) == array_bytes(right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if hasattr(left, "__array__"):  # tensors
        return same(np.asarray(left), np.asarray(right))
    kind: Any = type(left)
    if kind.__eq__ is object.__eq__:
        return left is right or item_digest(left) == item_digest(right)
    return bool(left == right) or (left != left and right != right)


def assert_same(got: Sequence[Any], expected: Sequence[Any], where: str, first: int = 0) -> None:
    """Fail with the first difference.

    Args:
      got: items.
      expected: the required items.
      where: begins the message of the error.
      first: the number of the first item in the whole run.

    Raises:
      ItemsDiffer: if the items differ.
    """
    for number, (left, right) in enumerate(zip(got, expected, strict=False), start=first):
        if not same(left, right):
            message = (
                f"{where}: item {number} is {shorten(left, 200)}, expected {shorten(right, 200)}"
            )
            raise ItemsDiffer(message, number, right, left)
    if len(got) == len(expected):
        return
    number = min(len(got), len(expected))
    message = f"{where}: {len(got)} items came, expected {len(expected)}; the first that is "
    if len(got) > len(expected):
        message += f"too many is item {first + number}, {shorten(got[number], 200)}"
        raise ItemsDiffer(message, first + number, NOTHING, got[number])
    message += f"missing is item {first + number}, {shorten(expected[number], 200)}"
    raise ItemsDiffer(message, first + number, expected[number], NOTHING)
