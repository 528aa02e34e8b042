"""The source of records found by a scan, with an index in a cache."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

from ..core.block import Indices
from ..core.computed_once import computed_once
from ..core.process_counts import process_counts
from ..errors import InvalidType, shorten
from .data_files import AnyFile, found_data_files
from .record import Format, LocatedRecord, located
from .record_file import AnyRecords, RecordFile, open_record_files
from .record_files import RecordFiles


@dataclass(frozen=True, eq=False, repr=False)
class IndexedRecordFiles(RecordFiles[Any]):
    """The base of the sources of records found by a scan.

    An item is a `LocatedRecord`, unless a subclass makes other items.

    Attributes:
      reads_as: the class that reads a file of the format on a disk.
    """

    reads_as: ClassVar[type[RecordFile]] = RecordFile

    _: KW_ONLY
    format: Format
    index_dir: str | os.PathLike[str] | None = None
    # The files for `paths`; searched if None.
    found: Sequence[AnyFile] | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "found": None}

    @property
    def _kind(self) -> str:
        return self.format.record

    @computed_once
    def _passes_over(self) -> bool:
        return True

    def _opened(self) -> tuple[AnyRecords, ...]:
        folder = self.index_dir
        if folder is not None:
            if not isinstance(folder, (str, os.PathLike)):
                raise InvalidType(f"index_dir must be a path or None, got {shorten(folder)}")
            folder = os.path.abspath(folder)
            os.makedirs(folder, exist_ok=True)
        found = self.found
        if found is None:
            found = found_data_files(self.paths, self.storage_options, self.format)
        object.__setattr__(self, "found", tuple(found))
        with process_counts.building():  # building an index may scan all files
            return open_record_files(found, folder, self.format, self.reads_as)

    def _item(self, data: bytes, file: AnyRecords, number: int) -> Any:
        return LocatedRecord(data, file.path, number + 1)

    def _items(self, found: list[bytes], files: Iterable[int], numbers: Indices) -> list[Any]:
        return located(found, map(self._paths.__getitem__, files), (numbers + 1).tolist())
