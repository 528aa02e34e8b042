"""Foresee when this process needs which parts of a cache, from the orders of its iterators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, final
from weakref import ref

import numpy as np

from ..core.block import Indices
from ..core.foreseen import PartUses, foreseeing, uses_between
from ..core.weak_sets import members
from ..errors import ResumableError
from .cache import FileCache
from .part_file import MIX
from .parts import CachedFile
from .plan import Codes, NextUses
from .working_set import working_sets

HORIZON: Final = 1 << 18
"""Items, or parts of files, to look ahead for all iterators; takes tens of milliseconds."""

RENEWED: Final = 2
"""The future is looked at again after this fraction of the horizon: half of it."""


class NeededPart(NamedTuple):
    """A needed part.

    Attributes:
      file: of the part.
      number: of the part.
      at: how many items come before.
      bytes: how many bytes of the part are needed soon.
    """

    file: CachedFile
    number: int
    at: int
    bytes: int


class _ObservedIterator(NamedTuple):
    """An iterator, and its position when its future was looked at.

    Attributes:
      iterator: a weak reference.
      position: items of the epoch before the iterator.
      horizon: how many items were looked ahead.
    """

    iterator: ref[Any]
    position: int
    horizon: int

    @property
    def moved(self) -> int:
        """Items that have come since the look; the whole horizon if the iterator is gone."""
        iterator = self.iterator()
        return self.horizon if iterator is None else int(iterator.position) - self.position

    @property
    def is_old(self) -> bool:
        """Whether the iterator has gone back, or has used half of the horizon."""
        return not 0 <= self.moved <= self.horizon // RENEWED


class _Uses(NamedTuple):
    """Uses of parts in the order of time; columns of shape (n,).

    Attributes:
      files: the files that `file_of` counts.
      contents: the code of each file, shape (files,).
      iterator_of: for each use, the place of its iterator among the observed iterators.
    """

    files: Sequence[CachedFile]
    contents: Codes
    file_of: Indices
    parts: Indices
    codes: Codes
    sizes: Indices
    at: Indices
    iterator_of: Indices

    @property
    def total(self) -> Indices:
        """How many bytes of the same part each use and all earlier uses need, shape (n,)."""
        order = np.argsort(self.codes, kind="stable")
        codes, sums = self.codes[order], np.cumsum(self.sizes[order])
        firsts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        before = sums[firsts] - self.sizes[order][firsts]
        total = np.empty_like(sums)
        total[order] = sums - np.repeat(before, np.diff([*firsts, len(codes)]))
        return total


@final
class _Outlook:
    """The future as known at one look, and how much of this future has come since.

    Args:
      observed: the iterators looked at.
      uses: uses of parts.
      of_epoch: the uses within the current epochs of the iterators.
    """

    def __init__(
        self, observed: Sequence[_ObservedIterator], uses: _Uses, of_epoch: Sequence[PartUses]
    ) -> None:
        self.uses = uses
        self._of_epoch = of_epoch
        self._observed = observed
        # The codes of the used parts, shape (parts,), and the place among these codes of each use,
        # shape (n,).
        self._codes, self._part_of = np.unique(uses.codes, return_inverse=True)
        self._total = uses.total if len(uses.at) else uses.at
        # Bytes of each part that were read since the look, shape (parts,).
        self._read = np.zeros(len(self._codes), np.int64)

    def working_set(self, cache: FileCache) -> int:
        """The most bytes of parts in use at a time in an epoch; 0 if all parts fit in ``cache``."""
        if len(self._codes) * cache.part_bytes <= cache.max_bytes:
            return 0
        return working_sets(self._of_epoch).get(cache, 0)

    @property
    def is_old(self) -> bool:
        """Whether the iterators in use have changed, or an iterator is old."""
        known = {each.iterator() for each in self._observed}
        return known != set(members(foreseeing)) or any(each.is_old for each in self._observed)

    def note_read(self, code: int, size: int) -> None:
        """Note that ``size`` bytes of the part with this code were read."""
        place = int(np.searchsorted(self._codes, np.uint64(code)))
        if place < len(self._codes) and self._codes[place] == code:
            self._read[place] += size

    def coming(self) -> tuple[Indices, Indices]:
        """The places of the coming uses, and in how many items of its iterator each use comes.

        The next use is first. Bytes that were read serve the earliest uses. Both arrays have the
        shape (coming,).
        """
        moved = np.array([each.moved for each in self._observed], np.int64)
        at = self.uses.at - moved[self.uses.iterator_of]
        served = self._total <= self._read[self._part_of]
        places = np.flatnonzero((at >= 0) & ~served)
        places = places[np.argsort(at[places], kind="stable")]
        return places, at[places]


@final
class Foresight:
    """The known future uses of ``cache`` by the iterators of this process.

    Args:
      cache: as in `PartUses`.
    """

    def __init__(self, cache: object) -> None:
        self._cache = cache
        # Several threads read through a cache. Each continues with the outlook it has found.
        self._outlook: _Outlook | None = None

    def next_uses(self) -> NextUses:
        """When each part is needed next."""
        outlook = self.look()
        places, at = outlook.coming()
        return NextUses.first_of(outlook.uses.codes[places], at, outlook.uses.contents)

    def note_read(self, code: int, size: int) -> None:
        """Note that ``size`` bytes of the part with this code were read."""
        if self._outlook is not None:
            self._outlook.note_read(code, size)

    def upcoming(self, most: int) -> Iterator[NeededPart]:
        """The parts with the next ``most`` needed bytes, each once, in the order of time."""
        outlook = self.look()
        uses, (coming, at) = outlook.uses, outlook.coming()
        soon = coming[: int(np.searchsorted(np.cumsum(uses.sizes[coming]), most, side="right"))]
        _, places, inverse = np.unique(uses.codes[soon], return_index=True, return_inverse=True)
        needed = np.bincount(inverse, uses.sizes[soon]).astype(np.int64)
        order = np.argsort(places)
        for place, size in zip(places[order].tolist(), needed[order].tolist(), strict=True):
            use = int(soon[place])
            file = uses.files[int(uses.file_of[use])]
            yield NeededPart(file, int(uses.parts[use]), int(at[place]), size)

    def look(self) -> _Outlook:
        """The current outlook; a new object after each new look."""
        outlook = self._outlook
        if outlook is None or outlook.is_old:
            iterators, observed = members(foreseeing), list[_ObservedIterator]()
            found, of_epoch = list[tuple[int, PartUses]](), list[PartUses]()
            for number, iterator in enumerate(iterators):
                horizon = iterator.horizon(HORIZON // len(iterators))
                observed.append(_ObservedIterator(ref(iterator), iterator.position, horizon))
                # An error of a later item, such as a damaged index, is raised for the item itself.
                with suppress(OSError, ResumableError):
                    left = iterator.left
                    for uses in iterator.foreseen(0, horizon):
                        if uses.cache == self._cache:
                            found.append((number, uses))
                            of_epoch.append(uses_between(uses, 0, left))
            outlook = self._outlook = _Outlook(observed, _in_order(found), of_epoch)
        return outlook


def code_of(file: CachedFile) -> int:
    """The code of the file's first part; the code of part ``n`` is ``n * MIX`` more."""
    return int(file.content_name[:16], 16)


def _in_order(found: Sequence[tuple[int, PartUses]]) -> _Uses:
    """The uses ``found`` by iterator, all in the order of time."""
    files: list[CachedFile] = []
    none, no_codes = np.empty(0, np.int64), np.empty(0, np.uint64)
    contents: list[Codes] = [no_codes]
    columns: list[tuple[Any, ...]] = [(none, none, no_codes, none, none, none)]
    for number, uses in found:
        first_codes = np.array([code_of(file) for file in uses.files], np.uint64)
        codes = first_codes[uses.file_of] + uses.parts.astype(np.uint64) * np.uint64(MIX)
        file_of, iterator_of = uses.file_of + len(files), np.full_like(uses.at, number)
        columns.append((file_of, uses.parts, codes, uses.sizes, uses.at, iterator_of))
        files += uses.files
        contents.append(first_codes)
    joined = (np.concatenate(column) for column in zip(*columns, strict=True))
    every = _Uses(files, np.concatenate(contents), *joined)
    order = np.argsort(every.at, kind="stable")
    in_order: Iterator[Any] = (column[order] for column in every[2:])
    return _Uses(files, every.contents, *in_order)
