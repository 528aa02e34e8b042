"""The file of a part: name, header and checksum."""

from __future__ import annotations

import os
import re
import struct
import time
from contextlib import suppress
from io import FileIO
from typing import Final, NamedTuple, TypeAlias, final
from zlib import crc32

from ..core.regular_files import NO_FOLLOW, READ, STRICT, open_regular
from .buffers import buffer_of

MAGIC: Final = b"resumable part 1"
HEADER: Final = struct.Struct("<16sQQ")  # the magic, a checksum of the content, and its length
ENDING: Final = ".part"
UNFINISHED: Final = ".part.tmp"
WRITE: Final = os.O_WRONLY | STRICT
NAME: Final = re.compile(r"([0-9a-f]{32})(?:-([0-9]{1,12})\.part|\.copy)(\.tmp)?")
WHOLE: Final = -1
"""The number that stands for a copy of a whole file instead of a part."""

MIX: Final = 0x9E3779B97F4A7C15
"""Odd, so that the parts of a file have different codes."""


class PartName(NamedTuple):
    """The name of a part.

    Attributes:
      content: 32 hexadecimal digits for the file, its version and the size of its parts.
      number: of the part, from 0; `WHOLE` for a copy of the file.
    """

    content: str
    number: int

    @property
    def content_code(self) -> int:
        """A number of 64 bits for the file and its version."""
        return int(self.content[:16], 16)

    @property
    def code(self) -> int:
        """A number of 64 bits for the part."""
        return (self.content_code + self.number * MIX) % (1 << 64)

    def path(self, folder: str) -> str:
        """The file of the part in ``folder``."""
        return os.path.join(folder, self.content[:2], f"{self.content}-{self.number}{ENDING}")


def found_name(file_name: str) -> tuple[PartName, bool] | None:
    """The part or copy in a file with this name, and whether it is finished; None for other names."""
    match = NAME.fullmatch(file_name)
    if match is None:
        return None
    return PartName(match[1], int(match[2] or WHOLE)), match[3] is None


class ForeignFile(Exception):
    """A file that no cache has written lies at the path of a part."""


Content: TypeAlias = "bytes | memoryview"

Identity: TypeAlias = "tuple[int, int, int]"
"""Inode, time of the last change in nanoseconds, and size of a file."""


def identity_of(status: os.stat_result) -> Identity:
    """The identity of a file with this ``status``."""
    return status.st_ino, status.st_mtime_ns, status.st_size


def header_of(content: Content) -> bytes:
    """The header of a part with this ``content``."""
    # Against faults of a disk, not of people: whoever can write a part can write its checksum too.
    return HEADER.pack(MAGIC, crc32(content), len(content))


def unfinished_path(path: str) -> str:
    """The path of the part at ``path`` while it is being written."""
    return path.removesuffix(ENDING) + UNFINISHED


def write_all(descriptor: int, content: Content) -> None:
    """Write all of ``content``, even if the system writes less at a time.

    Raises:
      OSError: if writing fails; then a part of ``content`` may have been written.
    """
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def finish_part(path: str, content: Content, descriptor: int | None = None) -> Identity:
    """Write the ``content`` of a part to its unfinished file, and rename the file to ``path``.

    Args:
      path: of the part.
      content: of the part.
      descriptor: of the unfinished file; None if another process has claimed the part and holds it
        open.

    Raises:
      ForeignFile: if a foreign file has appeared at ``path`` since the part was claimed.
      OSError: if writing fails, or the unfinished file no longer exists.
    """
    unfinished = unfinished_path(path)
    opened = os.open(unfinished, WRITE) if descriptor is None else descriptor
    try:
        os.lseek(opened, 0, os.SEEK_SET)
        write_all(opened, header_of(content))
        write_all(opened, content)
        os.ftruncate(opened, HEADER.size + len(content))
        identity = identity_of(os.fstat(opened))
        PartFile.check_own(path)
        try:
            os.replace(unfinished, path)
        except FileNotFoundError:
            # The fetching process of a dead process may have finished the part just now, with equal
            # content.
            if not os.path.exists(path):
                raise
    finally:
        if descriptor is None:
            os.close(opened)
    return identity


@final
class PartFile:
    """A part that is open for reading; its content is not verified before it is read whole.

    Attributes:
      identity: of the open file, to notice later changes.
    """

    def __init__(self, path: str, file: FileIO, status: os.stat_result) -> None:
        self._path = path
        self._file = file
        self._used_ns = status.st_atime_ns
        self.identity = identity_of(status)

    @classmethod
    def opened(cls, path: str) -> PartFile | None:
        """The file at ``path``, opened; None if no file exists.

        Raises:
          ForeignFile: if the file is not regular, or was not written by a cache.
          OSError: if the file cannot be opened.
        """
        try:
            opened = open_regular(path, READ | NO_FOLLOW)
        except FileNotFoundError:
            return None
        if opened is None:
            raise ForeignFile(path)
        file, status = opened
        try:
            # An empty file may be left of a part, and has nothing to lose.
            if status.st_size and file.read(len(MAGIC)) != MAGIC:
                raise ForeignFile(path)
        except BaseException:
            file.close()
            raise
        return cls(path, file, status)

    @classmethod
    def check_own(cls, path: str) -> None:
        """Refuse a file at ``path`` that no cache has written; raises the errors of `opened`."""
        opened = cls.opened(path)
        if opened is not None:
            opened.close()

    def read_whole(self, length: int) -> memoryview | None:
        """The content, of ``length`` bytes; None if the file is damaged or cut short."""
        header, content = self._read(0, HEADER.size), self._read(HEADER.size, length + 1)
        return content if len(content) == length and header == header_of(content) else None

    def read(self, start: int, stop: int) -> memoryview | None:
        """The content from ``start`` to ``stop``; None if the file is shorter."""
        data = self._read(HEADER.size + start, stop - start)
        return data if len(data) == stop - start else None

    def _read(self, offset: int, size: int) -> memoryview:
        buffer, count = buffer_of(size), 0
        self._file.seek(offset)
        while count < size and (more := self._file.readinto(buffer[count:])):
            count += more
        return buffer[:count]

    def note_use(self) -> None:
        """Set the access time of the file to now, at most once a second."""
        now = time.time_ns()
        if now - self._used_ns > 10**9:
            with suppress(OSError):  # the file may be removed, or belong to another user
                os.utime(self._path, ns=(now, self.identity[1]))

    def close(self) -> None:
        self._file.close()
