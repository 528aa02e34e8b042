"""Read files by offset, through a bounded cache of their contents."""

# Small files are kept whole, up to a budget of bytes; larger ones are mapped into memory, so a
# file of gigabytes is never read as a whole, and all processes share what they read. The cache
# belongs to the process, not to a stage: a stage stays a description that can be pickled.

from __future__ import annotations

import os
import stat
from io import FileIO
from typing import Final, NamedTuple, TypeAlias

from ..core.regular_files import NOT_A_FILE, READ
from ..errors import MalformedItem
from .maps import MOST_MAPS, FileMap, map_file
from .shelf import Shelf, Shelved

FileData: TypeAlias = "bytes | FileMap"

SMALL: Final = 1 << 16
SMALL_BUDGET: Final = 1 << 26

read_files: Shelf[FileData] = Shelf(SMALL_BUDGET)
mapped_files: Shelf[FileData] = Shelf(MOST_MAPS)


class DataFile(NamedTuple):
    """A file as it was found when a pipeline was built.

    Attributes:
      path: absolute.
      size: in bytes.
      mtime_ns: time of the last change.
      owner: number of the user it belongs to.
    """

    path: str
    size: int
    mtime_ns: int
    owner: int

    @classmethod
    def found(cls, path: str, status: os.stat_result) -> DataFile:
        """The file at ``path``, which has this ``status``."""
        return cls(os.path.abspath(path), status.st_size, status.st_mtime_ns, status.st_uid)

    def check_unchanged(self, status: os.stat_result) -> None:
        """Compare the file with its ``status`` now.

        Raises:
          MalformedItem: if it has changed.
        """
        if (status.st_size, status.st_mtime_ns) != (self.size, self.mtime_ns):
            raise self.changed()

    def changed(self) -> MalformedItem:
        """The error that says that the file has changed."""
        return MalformedItem(f"{self.path} changed since the pipeline was built; build it again")

    def open(self) -> FileIO:
        """The file, opened for reading.

        Raises:
          MalformedItem: if it has changed.
          OSError: if it cannot be opened.
        """
        opened = open_regular(self.path)
        if opened is None:
            raise self.changed()
        file, status = opened
        try:
            self.check_unchanged(status)
        except BaseException:
            file.close()
            raise
        return file


def open_regular(path: str, flags: int = READ) -> tuple[FileIO, os.stat_result] | None:
    """Open what is at ``path`` for reading; None if it is not a regular file.

    Raises:
      OSError: if it cannot be opened.
    """
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno in NOT_A_FILE:
            return None
        raise
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return FileIO(descriptor), status
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


class FileContent(Shelved[FileData]):
    """The bytes of a file, which stay in memory or mapped as long as a shelf has room for them."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self._mapped = file.size > SMALL

    def data(self) -> FileData:
        """The whole file.

        Raises:
          MalformedItem: if it has changed since the pipeline was built.
          OSError: if it cannot be read.
        """
        data = self.kept
        if data is None:
            return self._map() if self._mapped else self._read()
        self.used = True
        if self._mapped:
            # Reading a map beyond the end of a file cut short would kill the process.
            self._file.check_unchanged(os.stat(self._file.path))
        return data

    def _read(self) -> bytes:
        with self._file.open() as opened:
            data = opened.readall()
        if len(data) != self._file.size:
            raise self._file.changed()
        read_files.put(self, data, len(data))
        return data

    def _map(self) -> FileMap:
        with self._file.open() as opened:
            mapped = map_file(opened, self._file.size)
        if mapped is None:
            raise self._file.changed()
        mapped_files.put(self, mapped)
        return mapped
