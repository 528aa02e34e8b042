"""The sources of items in files, or in parts of files, with a known number of items each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..core.block import NO_INDICES, Block, Indices, block_items, ungroup
from ..core.computed_once import computed_once
from ..core.evidence import Evidence
from ..core.foreseen import PartUses
from ..core.indexed import Indexed
from ..core.lookup import LookedUp
from ..core.orders import MOST_ITEMS
from ..core.origin import Origin
from ..core.prepared_items import grouped
from ..core.record_source import RecordSource
from ..core.records import Records
from ..errors import MalformedItem
from .ahead import ReadAheadItems, TurnsSeen, growing
from .contents import evidence_of
from .data_files import AnyFile, path_of_found
from .io.cached_parts import part_uses
from .io.held_ranges import NOTHING_HELD, HeldRanges, Ranges
from .io.remote import RemoteFile
from .named_files import files_in_words, numbers_in_files
from .read_planner import FileLayout, ReadPlanner

T = TypeVar("T")


def begins_of(ends: Indices) -> Indices:
    """The starts of adjacent ranges from 0 on with the given ``ends``; both of shape (n,)."""
    return np.concatenate([np.zeros(1, np.int64), ends[:-1]])


@dataclass(frozen=True, eq=False, repr=False)
class FoundInFiles(LookedUp[T], RecordSource[T]):
    """The base of all sources of files: knows the files, and the file and the record of each item.

    A subclass finds the files when an instance is made, and keeps the files in fields that are no
    arguments. Another process finds the files again.
    """

    state_cost = "the position"

    @property
    @abstractmethod
    def _data_files(self) -> Sequence[AnyFile]:
        """The files, at least one."""

    @property
    @abstractmethod
    def _counts(self) -> Sequence[int]:
        """The number of items of each file."""

    @property
    def _kind(self) -> str:
        """The format's word for a record."""
        return "record"

    def __getstate__(self) -> dict[str, Any]:
        found = {field.name for field in fields(self) if not field.init}
        state = {name: value for name, value in super().__getstate__().items() if name not in found}
        if "paths" in state:  # a pattern may match more files later
            state["paths"] = list(map(path_of_found, self._data_files))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def length(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @computed_once
    def files(self) -> str:
        """The files in a few words: equal for equal names, sizes and numbers of records."""
        return files_in_words(self._data_files, f"{self.length} {self._kind}s")

    @computed_once
    def contents(self) -> Evidence:
        """Evidence of the contents of the files."""
        return evidence_of(self._data_files)

    @computed_once
    def _paths(self) -> list[str]:
        """The paths of the files, or their public URLs."""
        return [file.path for file in self._data_files]

    @computed_once
    def _ends(self) -> Indices:
        """Item numbers at which each file ends: shape (files,)."""
        return np.cumsum(self._counts, dtype=np.int64)

    @computed_once
    def _begins(self) -> Indices:
        """Item numbers at which each file begins."""
        return begins_of(self._ends)

    def _files_of(self, indices: Indices) -> Indices:
        """The number of the file of each item, of the same shape."""
        places: Indices = np.searchsorted(self._ends, indices, side="right")
        return places

    @computed_once
    def _is_remote(self) -> bool:
        """Whether any file is read over a network."""
        return any(isinstance(file, RemoteFile) for file in self._data_files)

    @computed_once
    def _is_cached(self) -> bool:
        """Whether a cache keeps parts of any file."""
        return any(file.cache for file in self._data_files)

    @abstractmethod
    def _gather(self, indices: Indices, held: HeldRanges = NOTHING_HELD) -> Block:
        """The items at ``indices``, shape (n,), from the ranges ``held`` as far as possible."""

    def _gather_range(self, start: int, stop: int) -> Block:
        """The items from ``start`` to ``stop``."""
        return self._gather(np.arange(start, stop, dtype=np.int64))

    def _read_ahead(self) -> Indexed[T]:
        """Random access with the bytes of remote items read ahead."""
        held, seen = HeldRanges(), TurnsSeen()
        gather = partial(self._gather, held=held)
        plan = ReadPlanner(self._layout, held, self._ranges_of, self._byte_ranges).plan
        return Indexed(
            self._gather,
            prepare=lambda indices: ReadAheadItems(gather, indices, plan, seen),
            every_epoch=True,
            plans_far=True,
            needs=partial(self._needs, held) if self._is_cached else None,
        )

    @computed_once
    def _layout(self) -> FileLayout:
        """Where the items are in the files."""
        return FileLayout.of(self._data_files, self._ends, self._begins)

    def _ranges_of(self, place: int, numbers: Indices) -> tuple[Indices, Indices, Indices]:
        """A `RangesOf`; only called for files with parts in a cache, or if items are read ahead."""
        raise NotImplementedError

    def _byte_ranges(self, wanted: Sequence[tuple[int, Indices]]) -> Sequence[Ranges]:
        """A `RangesOfItems`; by default the likely ranges are exact."""
        return [Ranges(*self._ranges_of(*each)[1:]) for each in wanted]

    def _needs(self, held: HeldRanges, indices: Indices, at: Indices) -> Iterator[PartUses]:
        """The uses of cached parts by items that are not ``held``.

        Args:
          held: ranges that were read ahead.
          indices: of the items, in the order of time, shape (n,).
          at: when the items are used, shape (n,).
        """
        lacking = ~held.holds_items(indices)
        indices, at = indices[lacking], at[lacking]
        order, groups = grouped(self._files_of(indices))
        files, needed = list[AnyFile](), list[tuple[Indices, ...]]()
        for place, first, last in groups:
            file, chosen = self._data_files[place], order[first:last]
            if file.cache:
                items, starts, ends = self._ranges_of(place, indices[chosen] - self._begins[place])
                needed.append((np.full_like(items, len(files)), starts, ends, at[chosen[items]]))
                files.append(file)
        if files:
            yield part_uses(files, *map(np.concatenate, zip(*needed, strict=True)))

    def _numbers_of(self, records: Records) -> Indices:
        return numbers_in_files(records, self.length, self._paths, self._items_of)

    def _items_of(self, place: int, records: Records) -> Indices:
        """The items of ``records`` of the file at ``place``."""
        count = int(self._ends[place] - self._begins[place])
        items: Indices = records.below(count, self._paths[place]) + self._begins[place]
        return items

    def _origins(self, numbers: Indices) -> list[Origin]:
        places = self._files_of(numbers)
        records = (numbers - self._begins[places]).tolist()
        paths = [self._paths[place] for place in places.tolist()]
        return [Origin(type(self).__name__, *pair) for pair in zip(records, paths, strict=True)]

    def _numbers_with(self, record: int) -> Indices:
        records = Records.of([record]).lenient
        found = [self._items_of(place, records) for place in range(len(self._paths))]
        return np.concatenate([NO_INDICES, *found])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.files})"


@dataclass(frozen=True, eq=False, repr=False)
class ItemsInParts(FoundInFiles[T]):
    """A source of parts from which many items are read at once, by their numbers in the part.

    A part is a file, or a section of a file, such as a row group.

    Attributes:
      most_ahead: most items read at once if items are requested one by one.
      ahead_bytes: approximate bytes of the parts read at once for these items.
    """

    most_ahead: ClassVar[int]
    ahead_bytes: ClassVar[int]

    @computed_once
    def _part_ends(self) -> Indices:
        """Item numbers at which each part ends: shape (parts,)."""
        return self._ends

    @computed_once
    def _part_begins(self) -> Indices:
        """Item numbers at which each part begins."""
        return begins_of(self._part_ends)

    def _parts_of(self, indices: Indices | int) -> Indices:
        """The number of the part of each item, of the same shape."""
        places: Indices = np.searchsorted(self._part_ends, indices, side="right")
        return places

    def _check_counts(self, claim: str) -> None:
        """Check the number of items.

        Raises:
          MalformedItem: if ``claim``, such as ``"a.x: it claims more than 2**62 items"``, is true.
        """
        if sum(self._counts) > MOST_ITEMS:
            raise MalformedItem(claim)

    @abstractmethod
    def _read(self, wanted: Sequence[tuple[int, Indices]], held: HeldRanges) -> list[Block]:
        """Items of several parts.

        Args:
          wanted: the number of each part, and the numbers of items in this part, shape (n,), at
            least one.
          held: bytes that were read ahead, if the source calls `_read_ahead`.
        """

    @property
    def _size(self) -> int:
        """Approximate bytes of all parts."""
        return sum(file.size for file in self._data_files)

    def indexed(self, epoch: int = 0) -> Indexed[T]:
        seen, plan = TurnsSeen(), growing(self._at_once)
        return Indexed(
            self._gather,
            self._item,
            prepare=lambda indices: ReadAheadItems(self._gather, indices, plan, seen),
            gather_range=self._gather_range,
            every_epoch=True,
            needs=partial(self._needs, NOTHING_HELD) if self._is_cached else None,
        )

    @computed_once
    def _at_once(self) -> int:
        """How many items are read at once, estimated from the sizes of the parts."""
        return self._fitting(self.most_ahead, self.ahead_bytes)

    def _fitting(self, most: int, most_bytes: int) -> int:
        """How many items of mean size fit in ``most_bytes``, from 1 to ``most``."""
        return min(max(most_bytes * self.length // max(self._size, 1), 1), most)

    def _item(self, index: int) -> T:
        item: T = block_items(self._gather(np.array([index], np.int64)))[0]
        return item

    def _gather(self, indices: Indices, held: HeldRanges = NOTHING_HELD) -> Block:
        if not len(indices):
            return []
        order, parts = grouped(self._parts_of(indices))
        # In the order of the first use: a finished part stays decoded until the next parts are
        # decoded.
        parts.sort(key=lambda part: order[part[1]])
        places = [order[start:stop] for _, start, stop in parts]
        wanted = [
            (number, indices[here] - self._part_begins[number])
            for (number, _, _), here in zip(parts, places, strict=True)
        ]
        return ungroup(self._read(wanted, held), np.concatenate(places))
