"""Bound the values in memory and the mapped files, whatever the number of files."""

# A value is kept on the object that needs the value, so that a look-up costs nothing. The cache
# only removes values.

from __future__ import annotations

from collections import OrderedDict
from threading import RLock
from typing import Generic, TypeVar

from ...core.home_process import in_forked_children

V = TypeVar("V")

# Reentrant, since a signal handler or a finalizer may run between two bytecodes.
_lock = RLock()
in_forked_children(lambda: globals().update(_lock=RLock()))


class Shelved(Generic[V]):
    """An object that can make its value again after a cache has removed it.

    Attributes:
      kept: the value, or None. Read `kept` once and keep the result: a cache may clear `kept` at
        any time.
      used: whether the value was used since the last look of the cache; set at each use.
    """

    kept: V | None = None
    used = False


class ClockCache(Generic[V]):
    """Recently used values, up to a limit on the sum of their weights.

    A value that was used since the last look gets a second chance (the clock algorithm of Corbató,
    1968), so that a use costs no more than setting a flag.

    Attributes:
      most: the limit.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._weights: OrderedDict[Shelved[V], int] = OrderedDict()
        # Invariant: at least the sum of the weights. An exception between two lines of `put` may
        # leave the total too large; then the cache keeps less until all values are dropped.
        self._total = 0

    def __len__(self) -> int:
        return len(self._weights)

    def put(self, owner: Shelved[V], value: V, weight: int = 1) -> None:
        """Keep the ``value`` of ``owner``; may drop values that were not used recently."""
        with _lock:
            self.drop(owner)
            if weight <= self.most:
                self._make_room(weight)
                self._weights[owner] = weight
                owner.kept = value
                owner.used = False

    def _make_room(self, weight: int) -> None:
        self._total += weight
        while self._total > self.most and self._weights:
            oldest = next(iter(self._weights))
            if oldest.used:
                oldest.used = False
                self._weights.move_to_end(oldest)
            else:
                self.drop(oldest)
        if not self._weights:
            self._total = weight

    def drop(self, owner: Shelved[V]) -> None:
        """Drop the value of ``owner``."""
        with _lock:
            owner.kept = None
            self._total -= self._weights.pop(owner, 0)

    def clear(self) -> None:
        """Drop all values."""
        for owner in list(self._weights):
            self.drop(owner)
