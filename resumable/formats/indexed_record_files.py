"""The source of records found by a scan, with an index in a cache."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

from ..core.derived import derived
from ..core.process_counts import process_counts
from ..errors import InvalidType, shorten
from .data_files import AnyFile, found_data_files
from .record import Format
from .record_file import AnyRecords, open_record_files
from .record_files import RecordFiles

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class IndexedRecordFiles(RecordFiles[T]):
    """The base of the sources of records found by a scan.

    A subclass names the format, and makes items.
    """

    _: KW_ONLY
    index_dir: str | os.PathLike[str] | None = None
    # The files for `paths`; searched if None.
    found: Sequence[AnyFile] | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "found": None}

    @property
    @abstractmethod
    def _records_format(self) -> Format:
        """The format of the records."""

    @property
    def _kind(self) -> str:
        return self._records_format.record

    @derived
    def _passes_over(self) -> bool:
        return True

    def _opened(self) -> tuple[AnyRecords, ...]:
        folder = self.index_dir
        if folder is not None:
            if not isinstance(folder, (str, os.PathLike)):
                raise InvalidType(f"index_dir must be a path or None, got {shorten(folder)}")
            folder = os.path.abspath(folder)
            os.makedirs(folder, exist_ok=True)
        format = self._records_format
        found = self.found
        if found is None:
            found = found_data_files(self.paths, self.storage_options, format)
        object.__setattr__(self, "found", tuple(found))
        with process_counts.building():  # building an index may scan all files
            opened = open_record_files(found, folder, format)
        return self._adapted(opened)

    def _adapted(self, files: tuple[AnyRecords, ...]) -> tuple[AnyRecords, ...]:
        """The ``files`` in the classes that read the format; by default unchanged."""
        return files
