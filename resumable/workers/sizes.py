"""About how many bytes items have, at a small cost."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

SAMPLED: Final = 8
"""Number of values sampled from a list."""
DEPTH: Final = 4
"""Number of levels of lists, tuples and dicts inspected."""
UNKNOWN_BYTES: Final = 32
"""Size of a number, and of any object of unknown size."""


def approximate_bytes(value: Any, depth: int = DEPTH) -> int:
    """The bytes of the arrays, texts and bytes in ``value``, which may be a block.

    Of a long list, a few values are sampled. An object without ``nbytes`` counts as a number.
    """
    if isinstance(value, (bytes, bytearray, str)):
        return len(value)
    if isinstance(value, (list, tuple, dict)):
        return _bytes_of_all(value, depth - 1) if depth else UNKNOWN_BYTES
    size = getattr(value, "nbytes", UNKNOWN_BYTES)
    return size if isinstance(size, int) else UNKNOWN_BYTES


def _bytes_of_all(values: Any, depth: int) -> int:
    if isinstance(values, dict):  # values differ like columns
        return sum(approximate_bytes(value, depth) for value in values.values())
    step = -(-len(values) // SAMPLED) or 1
    sampled = list(islice(values, 0, None, step))
    total = sum(approximate_bytes(value, depth) for value in sampled)
    return total * len(values) // max(len(sampled), 1)
