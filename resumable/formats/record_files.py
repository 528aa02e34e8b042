"""The base of all sources that read records by index."""

from __future__ import annotations

import bisect
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import repeat
from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from ..core.block import Block, Indices
from ..core.computed_once import computed_once
from ..core.evidence import Evidence
from ..core.identity import ALWAYS, IdentityFields
from ..core.indexed import Indexed
from ..core.origin import Origin
from ..core.prepared_items import grouped
from ..core.records import Records
from ..errors import shorten
from .contents import FILES, evidence_of_indexes
from .data_files import AnyFile
from .io.held_ranges import NOTHING_HELD, HeldRanges
from .io.open_files import ReadingAhead
from .io.paths import Paths
from .parts import FoundInFiles
from .record_file import AnyRecords, RecordFile, RemoteRecords

T = TypeVar("T")

FEW_RECORDS: Final = 8
"""With fewer records of one file, array operations cost more than they save."""

MOST_ITEMS_AHEAD: Final = 512
"""Items read at once when items are read in order."""


@dataclass(frozen=True, eq=False, repr=False)
class RecordFiles(FoundInFiles[T]):
    """The base of the sources of records with an index: holds files and indexes, and reads records.

    A subclass opens the files, and makes items.
    """

    identity: ClassVar[IdentityFields] = {"files": FILES, "contents": ALWAYS}

    paths: Paths
    _: KW_ONLY
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    _files: tuple[AnyRecords, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_files", self._opened())

    @computed_once
    def _data_files(self) -> Sequence[AnyFile]:
        return [file.file for file in self._files]

    @property
    def _counts(self) -> Sequence[int]:
        return [
            file.positions.records - (file.positions.passed_over if self._passes_over else 0)
            for file in self._files
        ]

    @abstractmethod
    def _opened(self) -> tuple[AnyRecords, ...]:
        """The files for `paths`, at least one, with their indexes."""

    @computed_once
    def _passes_over(self) -> bool:
        """Whether records passed over by the format are no items."""
        return False

    def _trimmed(self, found: list[bytes]) -> list[bytes]:
        """The records ``found`` in a remote file, as those of a file on a disk are read."""
        return found

    @abstractmethod
    def _item(self, data: bytes, file: AnyRecords, number: int) -> T:
        """The item of the record ``data``; ``number`` counts the records of the file from 0."""

    @abstractmethod
    def _items(self, found: list[bytes], files: Iterable[int], numbers: Indices) -> list[T]:
        """The items of the records ``found``, with the numbers of their files and of the records."""

    @computed_once
    def contents(self) -> Evidence:
        """Evidence of the contents of the files, from their indexes."""
        return evidence_of_indexes([(file.path, file.positions.content) for file in self._files])

    def _origins(self, numbers: Indices) -> list[Origin]:
        name, gather = type(self).__name__, object()
        files = self._files_of(numbers).tolist()
        found = []
        for place, item in zip(files, (numbers - self._begins[files]).tolist(), strict=True):
            file = self._files[place]
            record = int(self._among_all(place, np.array([item], np.int64))[0])
            offset = int(file.positions.ends([record], gather)[record - 1]) if record else 0
            found.append(Origin(name, record, file.path, offset))
        return found

    def _items_of(self, place: int, records: Records) -> Indices:
        """The items of ``records`` of the file at ``place``."""
        file = self._files[place]
        positions = file.positions
        numbers = records.below(positions.records, file.path)
        if self._passes_over:
            numbers, asked = positions.among_kept(numbers), numbers
            remain = positions.records - positions.passed_over - len(numbers)
            if len(numbers) < len(asked) and remain and not records.may_lack:
                _warn_of(np.setdiff1d(asked, positions.among_all(numbers)), file.path)
        items: Indices = numbers + self._begins[place]
        return items

    def indexed(self, epoch: int = 0) -> Indexed[T]:
        if self._is_remote:
            return self._read_ahead()
        return Indexed(
            self._gather, self._item_by_index(), gather_range=self._gather_range, every_epoch=True
        )

    def _item_by_index(self) -> Callable[[int], T]:
        """A function from index to item, which may return the same object when asked again."""
        return _PagedItems(self).__getitem__

    def _gather(self, indices: Indices, held: HeldRanges = NOTHING_HELD) -> Block:
        if not len(indices):
            return []
        file = self._files[0]
        if len(self._files) > 1 or isinstance(file, RemoteRecords):
            return self._gather_from_many(indices, held)
        numbers = file.positions.among_all(indices) if self._passes_over else indices
        return self._items(file.read(numbers), repeat(0), numbers)

    def _among_all(self, place: int, items: Indices) -> Indices:
        """The numbers of ``items`` among all records of their file, both of shape (n,)."""
        return self._files[place].positions.among_all(items) if self._passes_over else items

    def _gather_from_many(self, indices: Indices, held: HeldRanges) -> list[T]:
        in_files = self._files_of(indices)
        order, groups = grouped(in_files)  # each file is checked once
        in_files = in_files[order]
        numbers = indices[order] - self._begins[in_files]
        files = in_files.tolist()
        parts = [(self._files[place], start, stop) for place, start, stop in groups]
        if self._passes_over:
            for place, start, stop in groups:
                numbers[start:stop] = self._among_all(place, numbers[start:stop])
        gather, few, found = object(), numbers.tolist(), list[bytes]()
        remote = [
            (file.file, file.ranges(numbers[start:stop], gather))
            for file, start, stop in parts
            if isinstance(file, RemoteRecords)
        ]
        fetched = iter(held.read(remote))
        for file, start, stop in parts:
            if isinstance(file, RemoteRecords):
                found += self._trimmed(next(fetched))
            elif stop - start < FEW_RECORDS:
                found += file.read_few(few[start:stop], gather)
            else:
                found += file.read(numbers[start:stop], gather)
        items = self._items(found, files, numbers)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return [items[place] for place in places.tolist()]

    def _ranges_of(self, place: int, numbers: Indices) -> tuple[Indices, Indices, Indices]:
        file = self._files[place]
        assert isinstance(file, RemoteRecords)
        return np.arange(len(numbers)), *file.ranges(self._among_all(place, numbers))

    @computed_once
    def _stops(self) -> list[int]:
        """`_ends` as a list, which is faster for a single item."""
        stops: list[int] = self._ends.tolist()
        return stops

    def _from(self, index: int, most: int) -> list[T]:
        """Up to ``most`` items from ``index`` on, at least one, in the same file.

        Errors of later items are not raised.
        """
        place = bisect.bisect_right(self._stops, index)
        file, begin = self._files[place], self._stops[place - 1] if place else 0
        assert isinstance(file, RecordFile)
        if most > 1:
            wanted = np.arange(index, min(index + most, self._stops[place]), dtype=np.int64)
            with ReadingAhead():
                numbers = self._among_all(place, wanted - begin)
                found = file.read_page(numbers)
                return self._items(found, repeat(place), numbers[: len(found)])
        number = index - begin
        if self._passes_over and file.positions.passed_over:
            number = int(file.positions.among_all(np.array([number], np.int64))[0])
        return [self._item(file.read_few([number])[0], file, number)]


def _warn_of(passed_over: Indices, path: str) -> None:
    """Warn that ``passed_over``, excluded from the file at ``path``, are no items."""
    # No error, since runs that were begun with the argument must continue.
    warnings.warn(
        f"exclude names records of {path} that are no items, such as blank lines or a header, got "
        f"{shorten(passed_over.tolist())}; records count from 0, the lines in errors from 1",
        RuntimeWarning,
        stacklevel=3,
    )


class _PagedItems(dict[int, T]):
    """Items by index; consecutive items are read a page at a time.

    As a dict, it hands out the items of a page without Python code. Reading records has no side
    effects, so reading ahead is not observable. The caller must copy items that can be written to.
    """

    def __init__(self, records: RecordFiles[T]) -> None:
        super().__init__()
        self._records = records
        self._next = -1

    def __missing__(self, index: int) -> T:
        items = self._records._from(index, MOST_ITEMS_AHEAD if index == self._next else 1)
        # Another thread may replace the entries at the same time, without harm: all are valid.
        self.clear()
        if len(items) > 1:
            self.update(zip(range(index, index + len(items)), items, strict=True))
        self._next = index + len(items)
        return items[0]
