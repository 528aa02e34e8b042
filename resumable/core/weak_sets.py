"""Iterate over weak sets while other threads change the sets."""

from __future__ import annotations

from typing import Final, TypeVar
from weakref import WeakSet

T = TypeVar("T")

TRIES: Final = 8


def members(found: WeakSet[T]) -> list[T]:
    """The members of ``found``, which other threads may extend; empty if extended all the time."""
    for _ in range(TRIES):
        try:
            return list(found)
        except RuntimeError:  # another thread has added something meanwhile
            continue
    return []
