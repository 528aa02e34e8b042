"""An ArrayRecord file, read by the package `array_record` through a reader that may be closed at any time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, final

import numpy as np

from ..core.block import Indices
from ..errors import MalformedItem
from .data_files import AnyFile
from .io.clock_cache import ClockCache, Shelved
from .io.fork_gate import UnforkableCall
from .io.local_copies import local_copy
from .io.open_files import DataFile

OPTIONS: Final = "readahead_buffer_size:0,max_parallelism:0"
"""For random access. A reader then never waits for a thread of the package: a forked process has no such threads."""

BUFFER: Final = 1 << 15
"""Bytes read from a file at once."""

MOST_READERS: Final = 64

Reader: TypeAlias = Any
"""An ``ArrayRecordReader``. The file is closed when the reader is deleted."""

# Each reader with the number of the process that opened the reader.
open_readers: ClockCache[tuple[int, Reader]] = ClockCache(MOST_READERS)


@final
class ArrayRecordFile(Shelved["tuple[int, Reader]"]):
    """A file of records, open as long as a cache has room for the reader.

    Args:
      file: on a disk, or behind a URL; a remote file is copied to a disk.

    Attributes:
      file: as found when the pipeline was built.
      records: number of records.
      is_beyond_cache: whether the copy lies elsewhere, since a cache had no room.

    Raises:
      MalformedItem: if the file is no ArrayRecord file, or has changed.
      OSError: if the file cannot be read.
    """

    is_beyond_cache = False

    def __init__(self, file: AnyFile) -> None:
        self.file = file
        self.records = int(self._reader().num_records())

    def read(self, numbers: Indices) -> list[bytes]:
        """The records with these ``numbers``, shape (n,), at least one.

        Raises:
          MalformedItem: if a record is damaged, or the file has changed since the pipeline was
            built.
          OSError: if the file cannot be read.
        """
        listed = numbers.tolist()
        is_run = listed[-1] - listed[0] == len(listed) - 1 and (np.diff(numbers) == 1).all()
        try:
            return self._read(listed[0], listed[-1] + 1) if is_run else self._read(listed)
        except MalformedItem:
            if len(listed) == 1:
                raise
            # The package does not name the damaged record.
            return [self._read(number, number + 1)[0] for number in listed]

    def _read(self, *which: Any) -> list[bytes]:
        """The records ``which``: a list of numbers, or the first number and the end."""
        reader = self._reader()
        with self._malformed_if_damaged(f"record {which[0]}"), UnforkableCall():
            found: list[bytes] = reader.read(*which)
        return found

    def _reader(self) -> Reader:
        kept = self.kept
        if isinstance(self.file, DataFile):
            self.file.check_unchanged()
        if kept is not None and kept[0] == os.getpid():
            self.used = True
            return kept[1]
        if not isinstance(self.file, DataFile):
            copy = local_copy(self.file)
            self.is_beyond_cache = copy.is_beyond_cache
            return self._opened(copy.path)
        reader = self._opened(self.file.path)
        self.file.check_unchanged()
        return reader

    def _opened(self, path: str) -> Reader:
        from array_record.python.array_record_module import ArrayRecordReader

        # For a file that the system cannot open, the package raises the errors of damaged files.
        with open(path, "rb"):
            pass
        with self._malformed_if_damaged("list of records"), UnforkableCall():
            reader = ArrayRecordReader(path, options=OPTIONS, file_reader_buffer_size=BUFFER)
            if not reader.ok():
                reader.read([0])  # raises an error with the reason
                raise RuntimeError("it cannot be read")
        open_readers.put(self, (os.getpid(), reader))
        return reader

    @contextmanager
    def _malformed_if_damaged(self, where: str) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, ValueError, IndexError) as error:
            # Exact classes: a signal handler may raise a derived one.
            if type(error) not in (RuntimeError, ValueError, IndexError):
                raise
            if isinstance(self.file, DataFile):
                self.file.check_unchanged()
            raise MalformedItem(f"{self.file.path}, {where}: {error}") from error
