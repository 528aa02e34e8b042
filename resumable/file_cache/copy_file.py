"""A whole copy of a remote file in the folder of a cache, and the note that identifies the copy."""

# A reader needs a file with the plain content, so nothing in the file can say that a cache has
# written it. A note next to the copy says so: it has the inode of the file before the first byte is
# written, and the checksum once the copy is whole.

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import BinaryIO, Final, NamedTuple
from zlib import crc32

from ..core.regular_files import replacing
from .part_file import ForeignFile, Identity, identity_of

COPY: Final = ".copy"
UNFINISHED_COPY: Final = ".copy.tmp"
COPY_NOTE: Final = ".copy.json"
PIECE: Final = 1 << 20


class CopyNote(NamedTuple):
    """The note of a copy.

    Attributes:
      inode: of the file.
      mtime_ns: time of writing, in nanoseconds since the epoch of Unix; 0 before the copy is whole.
      size: in bytes.
      checksum: CRC-32 of the content.
    """

    inode: int
    mtime_ns: int = 0
    size: int = 0
    checksum: int = 0

    @property
    def identity(self) -> Identity:
        """The identity of the whole copy."""
        return self.inode, self.mtime_ns, self.size

    def write(self, path: str) -> None:
        """Write the note of the copy at ``path``.

        Raises:
          OSError: if writing fails.
        """
        with replacing(_note_path(path), ".tmp") as file:
            file.write(json.dumps(self).encode())


def note_of(path: str) -> CopyNote | None:
    """The note of the copy at ``path``; None if missing or damaged."""
    try:
        with open(_note_path(path), encoding="utf-8") as file:
            return CopyNote(*map(int, json.load(file)))
    except (OSError, ValueError, TypeError):
        return None


def whole_copy(path: str) -> CopyNote | None:
    """The note of the file at ``path``; None unless the file is a finished copy of a cache."""
    note = note_of(path)
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return note if note is not None and note.identity == identity_of(status) else None


def checksum_of(file: BinaryIO) -> int:
    """CRC-32 of the rest of ``file``, from its position."""
    found = 0
    while piece := file.read(PIECE):
        found = crc32(piece, found)
    return found


def remove_copy(path: str) -> bool:
    """Remove the copy at ``path`` if a cache has written it; returns whether.

    The note stays, as another process may begin to write the copy again.
    """
    if whole_copy(path) is None:
        return False
    with suppress(FileNotFoundError):
        os.unlink(path)
    return True


def unfinished_copy(path: str) -> str:
    """The path of the copy at ``path`` while it is being written."""
    return path.removesuffix(COPY) + UNFINISHED_COPY


def check_own_copy(descriptor: int, unfinished: str) -> None:
    """Refuse an unfinished copy that no cache has begun; an empty file has nothing to lose."""
    status, note = os.fstat(descriptor), note_of(unfinished.removesuffix(UNFINISHED_COPY) + COPY)
    if status.st_size and (note is None or note.inode != status.st_ino):
        raise ForeignFile(unfinished)


def _note_path(path: str) -> str:
    return path.removesuffix(COPY) + COPY_NOTE
