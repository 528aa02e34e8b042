"""A part of a remote file, kept in a file of its own: its name, its header, and whether it is whole."""

from __future__ import annotations

import os
import re
import stat
import struct
import time
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple, final

from ..core.regular_files import NO_FOLLOW, READ

MAGIC: Final = b"resumable part 1"
HEADER: Final = struct.Struct("<16s16sQ")  # the magic, a digest of the content, and its length
ENDING: Final = ".part"
UNFINISHED: Final = ".part.tmp"
NAME: Final = re.compile(r"([0-9a-f]{32})-([0-9]{1,12})(\.part|\.part\.tmp)")

MIX: Final = 0x9E3779B97F4A7C15
"""Odd, so that the parts of a file have different codes."""


class PartName(NamedTuple):
    """Which part of which content a file holds.

    Attributes:
      content: 32 hexadecimal digits for the file, its version and how it is cut.
      number: of the part, from 0.
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


def identity_of(status: os.stat_result) -> tuple[int, int, int]:
    """What tells a file from another one at its place, and from itself with another content."""
    return status.st_ino, status.st_mtime_ns, status.st_size


def header_of(content: bytes) -> bytes:
    """What stands before the ``content`` of a part."""
    return HEADER.pack(MAGIC, blake2b(content, digest_size=16).digest(), len(content))


@final
class PartFile:
    """A part that is open for reading; nothing is known of its content before `check`.

    Attributes:
      identity: tells whether another file, or another content, is there the next time.
    """

    def __init__(self, path: str, descriptor: int, status: os.stat_result) -> None:
        self._path = path
        self._descriptor = descriptor
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
            descriptor = os.open(path, READ | NO_FOLLOW)
        except FileNotFoundError:
            return None
        except OSError as error:
            if os.path.islink(path) or os.path.isdir(path):
                raise ForeignFile(path) from error
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ForeignFile(path)
            # An empty file may be what is left of a part; there is nothing in it to lose.
            if status.st_size and os.read(descriptor, len(MAGIC)) != MAGIC:
                raise ForeignFile(path)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, status)

    @classmethod
    def is_foreign(cls, path: str) -> bool:
        """Whether something lies at ``path`` that no cache has written.

        Raises:
          OSError: if it cannot be opened.
        """
        try:
            opened = cls.opened(path)
        except ForeignFile:
            return True
        if opened is not None:
            opened.close()
        return False

    def read_whole(self, length: int) -> bytes | None:
        """The content, of ``length`` bytes; None if it is damaged, or cut short."""
        data = self._read(0, HEADER.size + length + 1)
        content = data[HEADER.size :]
        return content if len(content) == length and data == header_of(content) + content else None

    def read(self, start: int, stop: int) -> bytes | None:
        """The content from ``start`` to ``stop``; None if the file is shorter."""
        data = self._read(HEADER.size + start, stop - start)
        return data if len(data) == stop - start else None

    def _read(self, offset: int, size: int) -> bytes:
        os.lseek(self._descriptor, offset, os.SEEK_SET)
        pieces = []
        while size and (piece := os.read(self._descriptor, size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def note_use(self) -> None:
        """Let the file say that it was used now, unless it says so of the last second."""
        now = time.time_ns()
        if now - self._used_ns > 10**9:
            with suppress(OSError):  # it may have been removed, or be another user's
                os.utime(self._path, ns=(now, self.identity[1]))

    def close(self) -> None:
        os.close(self._descriptor)
