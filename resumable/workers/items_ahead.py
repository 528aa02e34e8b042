"""Number of items of a partition computed ahead by a worker, and the approximate size of an item."""

# A buffer is too small if its worker stopped at a full buffer, and the items were used up before
# the worker came back: the worker has other partitions, and much work for some items and little for
# others, as for a `pack` that makes many rows at once. A larger buffer does not help if the buffer
# was never full, since then the worker runs at its full speed. tf.data distinguishes the two cases
# in the same way (`PrefetchAutotuner`).

from __future__ import annotations

from itertools import islice
from typing import Any, Final, final

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


FIRST: Final = 4
"""Items of each partition at first."""
MOST: Final = 64
"""Items of each partition at most."""
MOST_BYTES: Final = 1 << 26
"""Largest size of the items of all partitions of a rank together, beyond `FIRST` items of each."""


@final
class ItemsAhead:
    """The size of the buffer of one partition.

    Args:
      given: the size chosen by the user, kept fixed; None to grow from `FIRST`.
      partitions: number of partitions that share `MOST_BYTES`.

    Attributes:
      size: number of items the buffer may hold.
    """

    def __init__(self, given: int | None, partitions: int) -> None:
        self.size = FIRST if given is None else given
        self._grows = given is None
        self._most_bytes = MOST_BYTES // max(partitions, 1)
        self._item_bytes = 0.0  # of the largest delivered items
        self._was_full = False

    def note_delivery(self, items: list[Any], wanted: int) -> None:
        """Note a delivery of ``items`` by a worker, with room for ``wanted``."""
        self._was_full = len(items) == wanted
        if self._grows and items:
            self._item_bytes = max(self._item_bytes, approximate_bytes(items) / len(items))
            self.size = min(self.size, self._most)

    def note_wait(self) -> None:
        """Note that an item is needed and the buffer is empty."""
        if self._grows and self._was_full:
            self.size = min(2 * self.size, self._most)
        self._was_full = False

    @property
    def _most(self) -> int:
        return max(min(MOST, int(self._most_bytes / max(self._item_bytes, 1.0))), FIRST)
