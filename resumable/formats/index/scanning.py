"""Find the records of an uncompressed file, from its start to its end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from typing import Any, final

from ..data_files import AnyFile
from ..io.compression import LONGEST_MAGIC, check_uncompressed
from ..io.remote import RemoteFile
from ..io.stored_files import StoredFiles
from ..record import Format, FoundRecords


def scanned(data: AnyFile, format: Format) -> Iterator[FoundRecords]:
    """The records of ``data``, some at a time.

    Raises:
      InvalidArgument: if the file is compressed.
      MalformedItem: if the file has changed since the pipeline was built.
      OSError: if the file cannot be read.
    """
    with reading(data) as reader:
        check_uncompressed(reader.peek(), data.path, format)
        yield from format.scan(reader, 0)


@contextmanager
def reading(data: AnyFile) -> Iterator[FileReader]:
    """The content of ``data``; the file is checked for changes again at the end.

    Raises:
      MalformedItem: if the file has changed since the pipeline was built.
      OSError: if the file cannot be read.
    """
    if isinstance(data, RemoteFile):
        yield FileReader(RemoteIO(data), data)
        data.check_unchanged()
        return
    with data.open() as file:
        yield FileReader(file, data)
        data.check_unchanged(os.fstat(file.fileno()))


class FileReader:
    """The bytes of a file, read and not mapped, since the file may be cut short meanwhile.

    Each method raises `MalformedItem` if the file ends too early.

    Attributes:
      size: of the file, in bytes.
    """

    size: int | None

    def __init__(self, file: RawIOBase, data: AnyFile) -> None:
        # Small steps stay within the buffer; large reads go past it.
        self._file = BufferedReader(file)
        self._data = data
        self._left = self.size = data.size

    def peek(self) -> bytes:
        """The first bytes of the file, before it is read."""
        return self._file.peek(LONGEST_MAGIC)

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end."""
        found = self._file.read(min(size, self._left))
        self._pass(len(found), size)
        return found

    def readinto(self, buffer: memoryview) -> int:
        """Fill ``buffer``; returns the count of bytes, smaller than the buffer only at the end."""
        count = self._file.readinto(buffer[: self._left])
        self._pass(count, len(buffer))
        return count

    def skip(self, size: int) -> int:
        """Pass over ``size`` bytes; returns the count of bytes, smaller only at the end."""
        count = min(size, self._left)
        self._file.seek(count, os.SEEK_CUR)
        self._left -= count
        return count

    def _pass(self, count: int, wanted: int) -> None:
        if count < min(wanted, self._left):
            raise self._data.changed()
        self._left -= count


@final
class RemoteIO(RawIOBase):
    """A remote file, read from its start forwards; the next bytes are requested ahead."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self._pieces = StoredFiles([file]).remote(0)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._pieces.read_some(len(buffer))
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        ahead = offset if whence == os.SEEK_CUR else offset - self._position
        self._position += self._pieces.skip(ahead)
        return self._position
