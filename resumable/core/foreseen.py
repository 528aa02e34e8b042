"""The future needs of this process's iterators for parts of files, from the orders of items."""

# An order is a pure function of the position, so the next items are known without reading anything.
# A cache on a disk keeps the parts needed soonest, and fetches the parts needed next.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias
from weakref import WeakSet

from .block import Indices
from .home_process import in_forked_children


class PartUses(NamedTuple):
    """Uses of parts of files, each use of a part by an item.

    Attributes:
      cache: keeps the parts.
      files: the files of the parts.
      file_of: the place in ``files`` of the file of each use, shape (n,).
      parts: the number of the part in its file, shape (n,).
      sizes: bytes of the part needed by the use, shape (n,).
      at: time of the use, in items from now, shape (n,).
    """

    cache: Any
    files: Sequence[Any]
    file_of: Indices
    parts: Indices
    sizes: Indices
    at: Indices


Needs: TypeAlias = Callable[[Indices, Indices], Iterator[PartUses]]
"""Returns the needs of items at indices, shape (n,), used at the times in the second argument."""


def uses_between(uses: PartUses, start: int, stop: int) -> PartUses:
    """The ``uses`` by the items from ``start`` to ``stop``, counted from now."""
    soon = (uses.at >= start) & (uses.at < stop)
    return uses._replace(
        file_of=uses.file_of[soon], parts=uses.parts[soon], sizes=uses.sizes[soon], at=uses.at[soon]
    )


class Foresees(Protocol):
    """An iterator with a known order. Items may also be units of bytes, when read in order."""

    def horizon(self, most: int) -> int:
        """Number of next items that need about ``most`` source items or file parts; at least 1."""

    def foreseen(self, start: int, stop: int) -> Iterator[PartUses]:
        """Needs of the items from ``start`` to ``stop``, to the end of the next epoch at most.

        Items are counted from the next item.
        """

    @property
    def position(self) -> int:
        """Number of items of the epoch already delivered."""

    @property
    def left(self) -> int:
        """Number of items of the epoch still to come."""


foreseeing: WeakSet[Any] = WeakSet()
"""Objects in use that read from a cache, each a `Foresees`."""

# The iterators inherited by a fork continue in the parent.
in_forked_children(foreseeing.clear)
