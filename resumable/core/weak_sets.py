"""Go over weak sets that other threads change."""

from __future__ import annotations

from typing import Final, TypeVar
from weakref import WeakSet

T = TypeVar("T")

TRIES: Final = 8


def members(found: WeakSet[T]) -> list[T]:
    """What is in ``found``, to which other threads may add; nothing if they do so all the time."""
    for _ in range(TRIES):
        try:
            return list(found)
        except RuntimeError:  # another thread has added something meanwhile
            continue
    return []
