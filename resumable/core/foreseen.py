"""What the iterators of this process will need of files, from the orders that they go through."""

# An order is a pure function of the position, so what comes next can be asked for without reading
# anything. A cache on a disk keeps what is needed soonest, and fetches what is needed next.

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias
from weakref import WeakSet

from .block import Indices


class PartUses(NamedTuple):
    """Uses of parts of files, each use of a part by an item.

    Attributes:
      cache: keeps the parts.
      files: which they are of.
      file_of: the place in ``files`` of the file of each use, shape (n,).
      parts: the number of the part in its file, shape (n,).
      sizes: bytes that the use needs of the part, shape (n,).
      at: when it is used, in items from now, shape (n,).
    """

    cache: Any
    files: Sequence[Any]
    file_of: Indices
    parts: Indices
    sizes: Indices
    at: Indices


Needs: TypeAlias = Callable[[Indices, Indices], Iterator[PartUses]]
"""Tells what the items at some indices, shape (n,), need; they are used at the times of the second argument."""


def uses_between(uses: PartUses, start: int, stop: int) -> PartUses:
    """Those of ``uses`` by the items from ``start`` to ``stop``, counted from now."""
    soon = (uses.at >= start) & (uses.at < stop)
    return uses._replace(
        file_of=uses.file_of[soon], parts=uses.parts[soon], sizes=uses.sizes[soon], at=uses.at[soon]
    )


class Foresees(Protocol):
    """An iterator whose order is known. One that reads bytes in order may count units of them as items."""

    def horizon(self, most: int) -> int:
        """How many of its next items need about ``most`` items of the sources, or parts of files; at least 1."""

    def foreseen(self, start: int, stop: int) -> Iterator[PartUses]:
        """What its items from ``start`` to ``stop`` need, counted from the next one, up to the end of the next epoch."""

    @property
    def position(self) -> int:
        """How many items of the epoch are behind it."""

    @property
    def left(self) -> int:
        """How many items of the epoch are still to come."""


foreseeing: WeakSet[Any] = WeakSet()
"""What is in use that reads from a cache, each a `Foresees`."""

if hasattr(os, "register_at_fork"):
    # The iterators that a fork inherits go on in its parent.
    os.register_at_fork(after_in_child=foreseeing.clear)
