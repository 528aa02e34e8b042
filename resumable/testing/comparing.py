"""Compare items bit for bit, and name the first that differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..errors import shorten

PLAIN: Final = frozenset({int, str, bytes, bool, type(None)})
"""Types of which only the value is compared: most items are of one."""


def same(left: Any, right: Any) -> bool:
    """Equal in value, type, dtype and shape, bit for bit.

    Objects without an equality of their own are equal if their attributes are equal.
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
    if kind.__eq__ is object.__eq__ and hasattr(left, "__dict__"):
        return left is right or same(vars(left), vars(right))
    return bool(left == right) or (left != left and right != right)


def array_bytes(array: Any) -> bytes:
    """The values of an array or of a NumPy scalar, without gaps between them in memory."""
    dtype = array.dtype
    if dtype.names is not None:
        return b"".join(array_bytes(array[name]) for name in dtype.names)
    if dtype.kind == "f" and dtype.itemsize > 8:  # an extended precision, padded
        return _halves(array)
    if dtype.kind == "c" and dtype.itemsize > 16:
        return _halves(array.real) + _halves(array.imag)
    return bytes(array.tobytes())


def _halves(array: Any) -> bytes:
    """Numbers of extended precision, each as the sum of two doubles."""
    with np.errstate(all="ignore"):
        upper = np.asarray(array).astype(np.float64)
        lower = (array - upper).astype(np.float64)
    return bytes(upper.tobytes() + lower.tobytes())


def assert_same(got: Sequence[Any], expected: Sequence[Any], where: str, first: int = 0) -> None:
    """Fail with the first difference.

    Args:
      got: items.
      expected: the items they must be.
      where: begins the message of the error.
      first: the number of the first item in the whole run.
    """
    for number, (left, right) in enumerate(zip(got, expected, strict=False), start=first):
        if not same(left, right):
            raise AssertionError(
                f"{where}: item {number} is {shorten(left, 200)}, expected {shorten(right, 200)}"
            )
    if len(got) != len(expected):
        raise AssertionError(
            f"{where}: {len(got)} items came, expected {len(expected)}; the first that "
            f"{_odd_one(got, expected, first)}"
        )


def _odd_one(got: Sequence[Any], expected: Sequence[Any], first: int) -> str:
    number = min(len(got), len(expected))
    if len(got) > len(expected):
        return f"is too many is item {first + number}, {shorten(got[number], 200)}"
    return f"is missing is item {first + number}, {shorten(expected[number], 200)}"
