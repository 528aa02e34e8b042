"""Read files by offset, through a bounded cache of their contents."""

# Small files are kept whole, up to a budget of bytes. Larger files are mapped into memory, so a
# file of gigabytes is never read as a whole, and all processes share the pages they read. The cache
# belongs to the process, not to a stage: a stage stays a description that can be pickled.

from __future__ import annotations

import os
from io import FileIO
from typing import Final, NamedTuple, TypeAlias, final

from ...core.regular_files import open_regular
from ...errors import InvalidArgument, MalformedItem, MissingFile, ReadError
from .clock_cache import ClockCache, Shelved
from .maps import MOST_MAPS, FileMap, map_file

FileData: TypeAlias = "bytes | FileMap"

SMALL: Final = 1 << 16
SMALL_BUDGET: Final = 1 << 26

read_files: ClockCache[FileData] = ClockCache(SMALL_BUDGET)
mapped_files: ClockCache[FileData] = ClockCache(MOST_MAPS)


class DataFile(NamedTuple):
    """A file as it was found when a pipeline was built.

    Attributes:
      path: absolute.
      size: in bytes.
      mtime_ns: time of the last change.
      owner: number of the user who owns the file.
    """

    path: str
    size: int
    mtime_ns: int
    owner: int

    @classmethod
    def found(cls, path: str, status: os.stat_result) -> DataFile:
        """The file at ``path`` with this ``status``."""
        return cls(os.path.abspath(path), status.st_size, status.st_mtime_ns, status.st_uid)

    @property
    def cache(self) -> None:
        """The cache for parts of the file: none, for a file on a disk."""

    @property
    def version(self) -> int:
        """A number of 64 bits that changes with the content of the file."""
        return self.mtime_ns

    def check_unchanged(self, status: os.stat_result | None = None) -> None:
        """Compare the file with its current ``status``; None asks the system.

        Raises:
          MalformedItem: if the file has changed.
          ReadError: if the file no longer exists.
        """
        try:
            now = status or os.stat(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error
        if now.st_mtime_ns != self.mtime_ns or now.st_size != self.size:
            raise self.changed()

    def changed(self) -> MalformedItem:
        """The error for a changed file."""
        return MalformedItem(f"{self.path} changed since the pipeline was built; build it again")

    def open(self) -> FileIO:
        """The file, opened for reading.

        Raises:
          MalformedItem: if the file has changed.
          ReadError: if the file cannot be opened.
        """
        try:
            opened = open_regular(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error
        if opened is None:
            raise self.changed()
        file, status = opened
        try:
            self.check_unchanged(status)
        except BaseException:
            file.close()
            raise
        return file

    def content(self) -> bytes:
        """All bytes of the file.

        Raises:
          MalformedItem: if the file has changed.
          ReadError: if the file cannot be opened.
          OSError: if the file cannot be read.
        """
        with self.open() as opened:
            data = opened.readall()
        if len(data) != self.size:
            raise self.changed()
        return data


def unreadable(path: str, error: OSError) -> ReadError:
    """The error for a file that cannot be read; an error of a signal handler is raised unchanged."""
    if error.errno is None:
        raise error
    kind = MissingFile if isinstance(error, FileNotFoundError) else ReadError
    return kind(error.errno, f"could not be read: {error.strerror}", path)


def found_file(path: str) -> DataFile:
    """The regular file at ``path``.

    Raises:
      InvalidArgument: if ``path`` is no regular file.
      ReadError: if the file cannot be opened.
    """
    try:
        opened = open_regular(path)
    except OSError as error:
        if not os.path.lexists(path) or os.path.isfile(path):
            raise unreadable(path, error) from error
        opened = None
    if opened is None:
        raise InvalidArgument(f"paths must name regular files, got {path!r}")
    file, status = opened
    file.close()
    return DataFile.found(path, status)


@final
class ReadingAhead:
    """Drops errors in the data and errors of the system: a later, smaller read raises them again.

    Exceptions of signal handlers pass, since they have no error number.
    """

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        refused = isinstance(error, OSError) and error.errno is not None
        return refused or isinstance(error, (MalformedItem, ReadError))


class FileContent(Shelved[FileData]):
    """The bytes of ``file``, in memory or mapped as long as a cache has room."""

    def __init__(self, file: DataFile) -> None:
        self.file = file
        # Not by `DataFile.check_unchanged`, which is too slow to call for every record.
        self._path, self._status = file.path, (file.size, file.mtime_ns)
        self._mapped = file.size > SMALL

    def data(self) -> FileData:
        """The whole file.

        Raises:
          MalformedItem: if the file has changed since the pipeline was built.
          OSError: if the file cannot be read.
        """
        data = self.kept
        if data is None:
            return self._map() if self._mapped else self._read()
        self.used = True
        if self._mapped:
            # Reading a map beyond the end of a file cut short would kill the process.
            try:
                now = os.stat(self._path)
            except OSError as error:
                raise unreadable(self._path, error) from error
            if (now.st_size, now.st_mtime_ns) != self._status:
                raise self.file.changed()
        return data

    def _read(self) -> bytes:
        data = self.file.content()
        read_files.put(self, data, len(data))
        return data

    def _map(self) -> FileMap:
        with self.file.open() as opened:
            mapped = map_file(opened, self.file.size)
        if mapped is None:
            raise self.file.changed()
        mapped_files.put(self, mapped)
        return mapped
