"""A whole copy of a remote file, as it lies in the folder of a cache, and the note that says that it is one."""

# Whoever reads a copy wants a path to the content and nothing else, so nothing in the file says that a cache
# has written it. A note beside it does: it has the identity of the file from before the first byte is
# written, and a checksum once it is whole.

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
    """What is known of a copy.

    Attributes:
      inode: of its file.
      mtime_ns: when it was written, in nanoseconds since the epoch of Unix; 0 before it is whole.
      size: in bytes.
      checksum: CRC-32 of the content.
    """

    inode: int
    mtime_ns: int = 0
    size: int = 0
    checksum: int = 0

    @property
    def identity(self) -> Identity:
        """That of the whole copy."""
        return self.inode, self.mtime_ns, self.size

    def write(self, path: str) -> None:
        """Write it for the copy at ``path``.

        Raises:
          OSError: if that fails.
        """
        with replacing(_note_path(path), ".tmp") as file:
            file.write(json.dumps(self).encode())


def note_of(path: str) -> CopyNote | None:
    """The note of the copy at ``path``, if there is one."""
    try:
        with open(_note_path(path), encoding="utf-8") as file:
            return CopyNote(*map(int, json.load(file)))
    except (OSError, ValueError, TypeError):
        return None


def whole_copy(path: str) -> CopyNote | None:
    """The note of the file at ``path``, if it is a copy that a cache has finished."""
    note = note_of(path)
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return note if note is not None and note.identity == identity_of(status) else None


def checksum_of(file: BinaryIO) -> int:
    """CRC-32 of what is in ``file`` from where it stands."""
    found = 0
    while piece := file.read(PIECE):
        found = crc32(piece, found)
    return found


def remove_copy(path: str) -> bool:
    """Remove the copy at ``path``; whether a cache has written it. Its note stays, as another one may begin to write it anew."""
    if whole_copy(path) is None:
        return False
    with suppress(FileNotFoundError):
        os.unlink(path)
    return True


def unfinished_copy(path: str) -> str:
    """Where the copy whose place is ``path`` lies until it is whole."""
    return path.removesuffix(COPY) + UNFINISHED_COPY


def check_own_copy(descriptor: int, unfinished: str) -> None:
    """Refuse an unfinished copy that no cache has begun; in an empty file is nothing to lose."""
    status, note = os.fstat(descriptor), note_of(unfinished.removesuffix(UNFINISHED_COPY) + COPY)
    if status.st_size and (note is None or note.inode != status.st_ino):
        raise ForeignFile(unfinished)


def _note_path(path: str) -> str:
    return path.removesuffix(COPY) + COPY_NOTE
