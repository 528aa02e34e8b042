"""Read rows from files of row groups or record batches, decoded a group at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from ...core.block import Block, Indices, concatenate
from ...core.computed_once import computed_once
from ...core.foreseen import PartUses
from ...core.identity import ALWAYS, IdentityFields
from ...core.layout import LISTS, STACKED, Layout
from ..contents import FILES
from ..data_files import AnyFile, found_data_files
from ..io.clock_cache import ClockCache, Shelved
from ..io.fetching import map_at_once
from ..io.held_ranges import NOTHING_HELD, HeldRanges
from ..io.paths import Paths
from ..packages import imported
from ..parts import ItemsInParts
from .arrow_file import ArrowFile
from .columns import NAMES, check_names, checked_columns
from .file_access import TableFileAccess
from .group_reads import read_again
from .parquet_file import ParquetFile
from .rows import Rows

DECODED_BUDGET: Final = 1 << 30
"""Bytes of decoded groups that a process keeps."""

decoded: ClockCache[Rows] = ClockCache(DECODED_BUDGET)


TableFile: TypeAlias = ArrowFile | ParquetFile


class RowGroup(Shelved[Rows]):
    """The rows of one group, decoded as long as there is room.

    Args:
      file: of the group.
      number: of the group in the file.
      columns: names of the wanted columns.
    """

    def __init__(self, file: TableFile, number: int, columns: Sequence[str]) -> None:
        self._file = file
        self._number = number
        self._columns = columns

    def rows(self) -> Rows:
        """The decoded rows.

        Raises:
          MalformedItem: if the rows cannot be decoded, or the file has changed.
          OSError: if the file cannot be read.
        """
        found = self.kept
        if found is not None:
            self._file.access.check_decoded()
            self.used = True
            return found
        found = self._file.read(self._number, self._columns)
        # A group larger than the budget is kept alone: decoding it for each item would take too
        # long.
        decoded.put(self, found, min(found.weight, decoded.most))
        return found


@dataclass(frozen=True, eq=False, repr=False)
class TableFiles(ItemsInParts[dict[str, Any]]):
    """The base of the sources of rows: holds the files and the order of their groups, and reads."""

    identity: ClassVar[IdentityFields] = {
        "files": FILES,
        "contents": ALWAYS,
        "names": NAMES,
    }
    _kind = "row"
    most_ahead = 4096
    ahead_bytes = 1 << 21

    paths: Paths
    columns: Sequence[str] | None = None
    _: KW_ONLY
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    names: tuple[str, ...] = field(init=False, repr=False)
    _files: tuple[TableFile, ...] = field(init=False, repr=False)
    _groups: dict[int, RowGroup] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = checked_columns(self.columns)
        imported("pyarrow", f"{type(self).__name__} needs pyarrow", "arrow")
        object.__setattr__(self, "columns", chosen)
        accesses = list(map(TableFileAccess, found_data_files(self.paths, self.storage_options)))
        remote = any(access.is_remote for access in accesses)
        files = map_at_once(self._open, accesses) if remote else list(map(self._open, accesses))
        names = files[0].names if chosen is None else chosen
        for file in files:
            check_names(file.access.path, file.names, names)
        vars(self).update(names=tuple(names), _files=tuple(files), _groups={})
        self._check_counts(f"{files[0].access.path}: the files claim more than 2**62 rows")

    @abstractmethod
    def _open(self, access: TableFileAccess) -> TableFile:
        """The file of ``access``; reads only its headers."""

    @computed_once
    def _data_files(self) -> Sequence[AnyFile]:
        return [file.access.file for file in self._files]

    @property
    def _counts(self) -> Sequence[int]:
        return [sum(file.rows.tolist()) for file in self._files]

    @computed_once
    def _part_ends(self) -> Indices:
        return np.cumsum(np.concatenate([file.rows for file in self._files]), dtype=np.int64)

    @computed_once
    def _first_groups(self) -> Indices:
        """The number of the first group of each file among the groups of all files."""
        return np.cumsum([0, *[len(file.rows) for file in self._files[:-1]]], dtype=np.int64)

    @computed_once
    def block_layout(self) -> Layout:
        # Only decoding shows whether a column has nulls, and so no array of numbers.
        names = frozenset(self.names)
        return STACKED if all(names <= file.stackable for file in self._files) else LISTS

    def _needs(self, held: HeldRanges, indices: Indices, at: Indices) -> Iterator[PartUses]:
        number_of, decoded_bytes = self._reads
        kept = [number for number, group in list(self._groups.items()) if group.kept is not None]
        numbers = number_of[self._parts_of(indices)]
        is_kept = np.isin(numbers, number_of[kept])
        read = read_again(numbers, decoded_bytes[numbers], is_kept, decoded.most)
        return super()._needs(held, indices[read], at[read])

    def _ranges_of(self, place: int, numbers: Indices) -> tuple[Indices, Indices, Indices]:
        reads = self._files[place].reads
        assert reads is not None
        groups = self._parts_of(numbers + self._begins[place]) - self._first_groups[place]
        return reads.ranges_of(reads.number_of[groups])

    @computed_once
    def _reads(self) -> tuple[Indices, Indices]:
        """The number of each group's unit among all files, and the decoded bytes of each unit.

        The shapes are (groups,) and (units,); see `GroupReads`.
        """
        numbers, sizes, count = list[Indices](), list[Indices](), 0
        for file in self._files:
            groups, reads = len(file.rows), file.reads
            # The reads of a local file are not planned.
            numbers.append((np.arange(groups) if reads is None else reads.number_of) + count)
            sizes.append(np.zeros(groups, np.int64) if reads is None else reads.decoded)
            count += len(sizes[-1])
        return np.concatenate(numbers), np.concatenate(sizes)

    def _item(self, index: int) -> dict[str, Any]:
        number = int(self._parts_of(index))
        return self._rows(number).item(index - int(self._part_begins[number]))

    def _gather(self, indices: Indices, held: HeldRanges = NOTHING_HELD) -> Block:
        if len(indices):
            first, last = int(indices[0]), int(indices[-1])
            if last - first == len(indices) - 1 and (np.diff(indices) == 1).all():
                return self._gather_range(first, last + 1)
        return super()._gather(indices, held)

    def _read(self, wanted: Sequence[tuple[int, Indices]], held: HeldRanges) -> list[Block]:
        return [self._rows(number).gather(rows) for number, rows in wanted]

    def _gather_range(self, start: int, stop: int) -> Block:
        blocks = []
        number = int(self._parts_of(start))
        while start < stop:
            begin, end = int(self._part_begins[number]), min(int(self._part_ends[number]), stop)
            if start < end:
                blocks.append(self._rows(number).gather_range(start - begin, end - begin))
            start, number = max(start, end), number + 1
        return concatenate(blocks)

    def _rows(self, number: int) -> Rows:
        """The decoded rows of the group with this number among the groups of all files."""
        group = self._groups.get(number)
        if group is None:
            place = int(np.searchsorted(self._first_groups, number, side="right")) - 1
            first = int(self._first_groups[place])
            group = RowGroup(self._files[place], number - first, self.names)
            self._groups[number] = group
        return group.rows()
