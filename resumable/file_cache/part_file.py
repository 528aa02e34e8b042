"""A part of a remote file, kept in a file of its own: its name, its header, and whether it is whole."""

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
NAME: Final = re.compile(r"([0-9a-f]{32})-([0-9]{1,12})(\.part|\.part\.tmp)")
WHOLE: Final = -1
"""The number of a copy of a whole file in the place of that of a part."""

MIX: Final = 0x9E3779B97F4A7C15
"""Odd, so that the parts of a file have different codes."""


class PartName(NamedTuple):
    """Which part of which content a file holds.

    Attributes:
      content: 32 hexadecimal digits for the file, its version and how it is cut.
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
    """The part that a file of this name holds, and whether it is finished; None if it holds none."""
    match = NAME.fullmatch(file_name)
    if match is None:
        return None
    return PartName(match[1], int(match[2])), match[3] == ENDING


class ForeignFile(Exception):
    """Something else lies where a part would be."""


Content: TypeAlias = "bytes | memoryview"

Identity: TypeAlias = "tuple[int, int, int]"
"""What tells a file from another one at its place, and from itself with another content."""


def identity_of(status: os.stat_result) -> Identity:
    """The identity of a file with this ``status``."""
    return status.st_ino, status.st_mtime_ns, status.st_size


def header_of(content: Content) -> bytes:
    """What stands before the ``content`` of a part."""
    # Against faults of a disk, not of people: whoever can write a part can write its checksum too.
    return HEADER.pack(MAGIC, crc32(content), len(content))


def unfinished_path(path: str) -> str:
    """Where the part whose place is ``path`` lies until it is whole."""
    return path.removesuffix(ENDING) + UNFINISHED


def write_all(descriptor: int, content: Content) -> None:
    """Write all of ``content``, where the system takes less of it at a time too.

    Raises:
      OSError: if that fails; then a part of it may have been written.
    """
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def finish_part(path: str, content: Content, descriptor: int | None = None) -> Identity:
    """Write the ``content`` of a part to its unfinished file, and give that its name.

    Args:
      path: of the part.
      content: of the part.
      descriptor: of the unfinished file, if it is open; else another one has claimed the part.

    Raises:
      ForeignFile: if somebody has put something else there since the part was claimed.
      OSError: if that fails, or the file is no longer there.
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
            # The one that fetched for a process that died may have finished it just now, with the same content.
            if not os.path.exists(path):
                raise
    finally:
        if descriptor is None:
            os.close(opened)
    return identity


@final
class PartFile:
    """A part that is open for reading; nothing is known of its content before it is read whole.

    Attributes:
      identity: tells whether another file, or another content, is there the next time.
    """

    def __init__(self, path: str, file: FileIO, status: os.stat_result) -> None:
        self._path = path
        self._file = file
        self._used_ns = status.st_atime_ns
        self.identity = identity_of(status)

    @classmethod
    def opened(cls, path: str) -> PartFile | None:
        """The file at ``path``; None if there is none.

        Raises:
          ForeignFile: if it is no regular file, or not of a cache.
          OSError: if it cannot be opened.
        """
        try:
            opened = open_regular(path, READ | NO_FOLLOW)
        except FileNotFoundError:
            return None
        if opened is None:
            raise ForeignFile(path)
        file, status = opened
        try:
            # An empty file may be what is left of a part; there is nothing in it to lose.
            if status.st_size and file.read(len(MAGIC)) != MAGIC:
                raise ForeignFile(path)
        except BaseException:
            file.close()
            raise
        return cls(path, file, status)

    @classmethod
    def check_own(cls, path: str) -> None:
        """Refuse something at ``path`` that no cache has written; raises what `opened` raises."""
        opened = cls.opened(path)
        if opened is not None:
            opened.close()

    def read_whole(self, length: int) -> memoryview | None:
        """The content, of ``length`` bytes; None if it is damaged, or cut short."""
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
        """Let the file say that it was used now, unless it says so of the last second."""
        now = time.time_ns()
        if now - self._used_ns > 10**9:
            with suppress(OSError):  # it may have been removed, or be another user's
                os.utime(self._path, ns=(now, self.identity[1]))

    def close(self) -> None:
        self._file.close()
