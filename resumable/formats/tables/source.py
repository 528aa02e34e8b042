"""Read rows of files that hold them in row groups or record batches, decoded a group at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Final, Protocol

import numpy as np

from ...core.block import (
    Block,
    Indices,
    concatenate,
    ungroup,
)
from ...core.derived import derived
from ...core.foreseen import PartUses
from ...core.identity import IdentityFields
from ...core.indexed import Indexed
from ...core.layout import LISTS, STACKED, Layout
from ...core.orders import MOST_ITEMS
from ...core.prepared_items import grouped
from ...core.reliance import ALWAYS
from ...errors import MalformedItem, MissingDependency
from ..ahead import ReadAheadItems, TurnsSeen
from ..contents import FILES
from ..data_files import AnyFile, found_data_files
from ..io.cached_parts import FileRanges, part_uses_of
from ..io.clock_cache import ClockCache, Shelved
from ..io.fetching import map_at_once
from ..io.paths import Paths
from ..io.remote import has_cached_parts
from ..parts import FoundInFiles
from .columns import NAMES, check_names, checked_columns
from .file_access import TableFileAccess
from .group_reads import GroupReads, read_again
from .rows import Rows

MOST_ROWS_AHEAD: Final = 4096
DECODED_AHEAD_BYTES: Final = 1 << 21
"""Most rows made at once when they are asked for in order, and most bytes of the files for them."""

DECODED_BUDGET: Final = 1 << 30
"""Bytes of decoded groups that a process keeps."""

decoded: ClockCache[Rows] = ClockCache(DECODED_BUDGET)


class TableFile(Protocol):
    """A file of rows, as found when a pipeline was built.

    Attributes:
      access: to its bytes.
      names: of its columns.
      stackable: the columns whose values can be stacked, whichever are in a batch.
      rows: of each group, shape (groups,), int64.
      reads: what is read for each group, if the file is remote.
    """

    access: TableFileAccess
    names: Sequence[str]
    stackable: frozenset[str]
    rows: Indices
    reads: GroupReads | None

    def read(self, group: int, columns: Sequence[str]) -> Rows:
        """The rows of a group, decoded, with only these columns.

        Raises:
          MalformedItem: if they cannot be decoded, or the file has changed.
          OSError: if it cannot be read.
        """


class RowGroup(Shelved[Rows]):
    """The rows of one group, which stay decoded as long as there is room for them.

    Args:
      file: the file that has the group.
      number: of the group in the file.
      columns: the names of those that are wanted.
    """

    def __init__(self, file: TableFile, number: int, columns: Sequence[str]) -> None:
        self._file = file
        self._number = number
        self._columns = columns

    def rows(self) -> Rows:
        """The decoded rows.

        Raises:
          MalformedItem: if they cannot be decoded, or the file has changed.
          OSError: if it cannot be read.
        """
        found = self.kept
        if found is not None:
            self._file.access.check_decoded()
            self.used = True
            return found
        found = self._file.read(self._number, self._columns)
        # A group larger than the budget is kept alone: decoding it per item would take too long.
        decoded.put(self, found, min(found.weight, decoded.most))
        return found


@dataclass(frozen=True, eq=False, repr=False)
class TableFiles(FoundInFiles[dict[str, Any]]):
    """What the sources of rows share: the files, the order of their groups, and the reading."""

    identity: ClassVar[IdentityFields] = {
        "files": FILES,
        "contents": ALWAYS,
        "names": NAMES,
    }
    paths: Paths
    columns: Sequence[str] | None = None
    _: KW_ONLY
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    names: tuple[str, ...] = field(init=False, repr=False)
    _files: tuple[TableFile, ...] = field(init=False, repr=False)
    # For each group: the item number at which it ends, its file, and its number there; shape (groups,), int64.
    _group_ends: Indices = field(init=False, repr=False)
    _file_of: Indices = field(init=False, repr=False)
    _number_of: Indices = field(init=False, repr=False)
    _groups: dict[int, RowGroup] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = checked_columns(self.columns)
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise MissingDependency(
                f"{type(self).__name__} needs pyarrow: pip install 'resumable-loader[arrow]' ({error})"
            ) from error
        object.__setattr__(self, "columns", chosen)
        accesses = list(map(TableFileAccess, found_data_files(self.paths, self.storage_options)))
        remote = any(access.is_remote for access in accesses)
        files = map_at_once(self._open, accesses) if remote else list(map(self._open, accesses))
        names = files[0].names if chosen is None else chosen
        for file in files:
            check_names(file.access.path, file.names, names)
        counts = np.concatenate([file.rows for file in files])
        if sum(counts.tolist()) > MOST_ITEMS:
            raise MalformedItem(f"{files[0].access.path}: the files claim more than 2**62 rows")
        groups = [len(file.rows) for file in files]
        vars(self).update(
            names=tuple(names),
            _files=tuple(files),
            _group_ends=np.cumsum(counts, dtype=np.int64),
            _file_of=np.repeat(np.arange(len(files)), groups),
            _number_of=np.concatenate([np.arange(count) for count in groups]),
            _groups={},
        )

    @abstractmethod
    def _open(self, access: TableFileAccess) -> TableFile:
        """The file that ``access`` reads; only its headers are read."""

    @derived
    def _data_files(self) -> Sequence[AnyFile]:
        return [file.access.file for file in self._files]

    @property
    def _counts(self) -> Sequence[int]:
        return [int(file.rows.sum()) for file in self._files]

    @property
    def _kind(self) -> str:
        return "row"

    @derived
    def block_layout(self) -> Layout:
        # Only decoding a column tells whether it has nulls, and so no array for its numbers.
        names = frozenset(self.names)
        return STACKED if all(names <= file.stackable for file in self._files) else LISTS

    def indexed(self, epoch: int = 0) -> Indexed[dict[str, Any]]:
        seen = TurnsSeen()
        return Indexed(
            self._gather,
            self._item,
            prepare=lambda indices: ReadAheadItems(
                self._gather, indices, lambda _: lambda *_: self._most_ahead, seen
            ),
            gather_range=self._gather_range,
            every_epoch=True,
            needs=self._needs if self._is_cached else None,
        )

    def _needs(self, indices: Indices, at: Indices) -> Iterator[PartUses]:
        """What the rows at ``indices``, in the order of time, need of files in a cache, used at the times ``at``."""
        groups = np.searchsorted(self._group_ends, indices, side="right")
        number_of, decoded_bytes = self._reads
        kept = [number for number, group in list(self._groups.items()) if group.kept is not None]
        numbers = number_of[groups]
        is_kept = np.isin(numbers, number_of[kept])
        read = read_again(numbers, decoded_bytes[numbers], is_kept, decoded.most)
        groups, at = groups[read], at[read]

        def ranges_of(place: int, chosen: Indices) -> FileRanges | None:
            reads, file = self._files[place].reads, self._data_files[place]
            if reads is None or not has_cached_parts(file):
                return None
            numbers = reads.number_of[self._number_of[groups[chosen]]]
            items, starts, ends = reads.ranges_of(numbers)
            return FileRanges(file, chosen[items], starts, ends)

        return part_uses_of(self._file_of[groups], at, ranges_of)

    @derived
    def _reads(self) -> tuple[Indices, Indices]:
        """The number of what is read for each group among those of all files, and the bytes that it takes decoded."""
        numbers, sizes, count = list[Indices](), list[Indices](), 0
        for file in self._files:
            groups = len(file.rows)
            # Of a local file nothing is known.
            numbers.append(
                (np.arange(groups) if file.reads is None else file.reads.number_of) + count
            )
            sizes.append(np.zeros(groups, np.int64) if file.reads is None else file.reads.decoded)
            count += len(sizes[-1])
        return np.concatenate(numbers), np.concatenate(sizes)

    @derived
    def _most_ahead(self) -> int:
        """How many rows are made at once, as far as the sizes of the files tell."""
        size = sum(file.size for file in self._data_files)
        return int(min(max(DECODED_AHEAD_BYTES * self.length // max(size, 1), 1), MOST_ROWS_AHEAD))

    def _item(self, index: int) -> dict[str, Any]:
        number = self._group_of(index)
        return self._rows(number).item(index - self._begin(number))

    def _gather(self, indices: Indices) -> Block:
        if not len(indices):
            return []
        first, last = int(indices[0]), int(indices[-1])
        if last - first == len(indices) - 1 and (np.diff(indices) == 1).all():
            return self._gather_range(first, last + 1)
        order, parts = grouped(np.searchsorted(self._group_ends, indices, side="right"))
        # In the order of their first rows asked for: groups that are finished stay decoded until
        # those after them are.
        parts.sort(key=lambda part: order[part[1]])
        blocks, places = [], []
        for number, start, stop in parts:
            here = order[start:stop]
            blocks.append(self._rows(number).gather(indices[here] - self._begin(number)))
            places.append(here)
        return ungroup(blocks, np.concatenate(places))

    def _gather_range(self, start: int, stop: int) -> Block:
        blocks = []
        number = self._group_of(start)
        while start < stop:
            begin, end = self._begin(number), min(int(self._group_ends[number]), stop)
            if start < end:
                blocks.append(self._rows(number).gather_range(start - begin, end - begin))
            start, number = max(start, end), number + 1
        return concatenate(blocks)

    def _rows(self, number: int) -> Rows:
        """The decoded rows of the group with this number among those of all files."""
        group = self._groups.get(number)
        if group is None:
            file = self._files[self._file_of[number]]
            group = RowGroup(file, int(self._number_of[number]), self.names)
            self._groups[number] = group
        return group.rows()

    def _group_of(self, index: int) -> int:
        return int(np.searchsorted(self._group_ends, index, side="right"))

    def _begin(self, number: int) -> int:
        return int(self._group_ends[number - 1]) if number else 0
