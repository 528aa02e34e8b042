"""What this process needs of a cache, and when, from the orders of its iterators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, final
from weakref import WeakKeyDictionary

import numpy as np

from ..core.block import Indices
from ..core.foreseen import PartUses, foreseeing
from ..errors import ResumableError
from .part_file import MIX
from .parts import CachedFile
from .plan import Codes, NextUses

HORIZON: Final = 1 << 18
"""Items that are looked ahead, which takes tens of milliseconds for all of them."""

RENEWED: Final = 2
"""The share of the horizon after which it is looked at anew."""

TRIES: Final = 8


class NeededPart(NamedTuple):
    """A part that is needed.

    Attributes:
      file: which it is of.
      number: of the part.
      at: how many items come before.
      bytes: how many bytes of it are needed soon.
    """

    file: CachedFile
    number: int
    at: int
    bytes: int


class _Uses(NamedTuple):
    """Uses of parts in the order of time; columns of shape (n,).

    Attributes:
      files: which `file_of` names.
    """

    files: Sequence[CachedFile]
    file_of: Indices
    parts: Indices
    codes: Codes
    sizes: Indices
    at: Indices


@final
class Foresight:
    """The uses that the iterators of this process will make of ``cache``, as far as they are known.

    Args:
      cache: as it stands in `PartUses`.
    """

    def __init__(self, cache: object) -> None:
        self._cache = cache
        self._uses: _Uses | None = None
        self._horizon = HORIZON
        self._positions: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def next_uses(self) -> NextUses:
        """When each part is needed next."""
        uses = self._known()
        contents = np.array([code_of(file) for file in uses.files], np.uint64)
        start = int(np.searchsorted(uses.at, self._elapsed))
        at = uses.at[start:] - self._elapsed
        return NextUses.first_of(uses.codes[start:], at, contents)

    def upcoming(self, most: int) -> Iterator[NeededPart]:
        """The parts that the next ``most`` bytes are in, each once, in the order of time."""
        uses = self._known()
        start = int(np.searchsorted(uses.at, self._elapsed))
        stop = start + int(np.searchsorted(np.cumsum(uses.sizes[start:]), most, side="right"))
        soon = slice(start, stop)
        _, places, inverse = np.unique(uses.codes[soon], return_index=True, return_inverse=True)
        needed = np.bincount(inverse, uses.sizes[soon]).astype(np.int64)
        order = np.argsort(places)
        for place, size in zip(places[order].tolist(), needed[order].tolist(), strict=True):
            use = start + place
            file = uses.files[int(uses.file_of[use])]
            yield NeededPart(file, int(uses.parts[use]), int(uses.at[use]) - self._elapsed, size)

    def _known(self) -> _Uses:
        """The uses that are known, looked at anew from time to time."""
        if self._uses is None or self._is_old():
            iterators = _all_foreseeing()
            horizon = HORIZON // max(len(iterators), 1)
            self._positions = WeakKeyDictionary({each: each.position for each in iterators})
            found = []
            # An error of a later item, such as a damaged index, is raised when the item is asked for.
            with suppress(OSError, ResumableError):
                for iterator in iterators:
                    found += [
                        uses for uses in iterator.foreseen(0, horizon) if uses.cache == self._cache
                    ]
            self._uses, self._horizon = _in_order(found), horizon
        return self._uses

    def _is_old(self) -> bool:
        return (
            set(_all_foreseeing()) != set(self._positions)
            or not 0 <= self._elapsed <= self._horizon // RENEWED
        )

    @property
    def _elapsed(self) -> int:
        """How many items the fastest iterator has gone since the uses were looked at."""
        return max((each.position - was for each, was in list(self._positions.items())), default=0)


def code_of(file: CachedFile) -> int:
    """The code of the file's first part; that of another part is `MIX` times its number more."""
    return int(file.content_name[:16], 16)


def _all_foreseeing() -> list[Any]:
    for _ in range(TRIES):
        try:
            return list(foreseeing)
        except RuntimeError:  # another thread has begun to iterate meanwhile
            continue
    return []


def _in_order(found: Sequence[PartUses]) -> _Uses:
    files: list[CachedFile] = []
    columns: list[tuple[Indices, Indices, Codes, Indices, Indices]] = []
    for uses in found:
        first_codes = np.array([code_of(file) for file in uses.files], np.uint64)
        codes = first_codes[uses.file_of] + uses.parts.astype(np.uint64) * np.uint64(MIX)
        file_of = uses.file_of + len(files)
        columns.append((file_of, uses.parts, codes, uses.sizes, uses.at))
        files += uses.files
    if not columns:
        none = np.empty(0, np.int64)
        return _Uses(files, none, none, np.empty(0, np.uint64), none, none)
    file_of, parts, codes, sizes, at = map(np.concatenate, zip(*columns, strict=True))
    order = np.argsort(at, kind="stable")
    return _Uses(files, file_of[order], parts[order], codes[order], sizes[order], at[order])
