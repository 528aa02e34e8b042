"""Read the content of a file for a scan, and keep the bytes until the records are taken."""

from __future__ import annotations

from typing import Final

from .pieces import Damage, Pieces, Start

LARGEST_RECORD: Final = 1 << 31
READ_AT_ONCE: Final = 1 << 20


class ScanBuffer:
    """Content in order, as a `ByteReader`, kept from the last record taken on.

    To a scan, damage looks like the end of the file; the reader handles the damage.

    Args:
      pieces: the content, from ``offset`` on.
      offset: of a record.

    Attributes:
      size: of the whole content; None if not known before the end.
      begin: offset of the kept bytes.
      damage: description of the damage after the bytes that were read; None if none is known.
    """

    def __init__(self, pieces: Pieces, offset: int) -> None:
        self.size = pieces.size
        self.begin = offset
        self.damage: str | None = None
        self._pieces = pieces
        self._kept = bytearray()

    def read(self, size: int) -> bytes:
        start = len(self._kept)
        count = self._keep(size)
        with memoryview(self._kept) as view:
            return bytes(view[start : start + count])

    def readinto(self, buffer: memoryview) -> int:
        start = len(self._kept)
        count = self._keep(len(buffer))
        with memoryview(self._kept) as view:
            buffer[:count] = view[start : start + count]
        return count

    def skip(self, size: int) -> int:
        return self._keep(size)

    def take(self, end: int) -> bytes:
        """The content up to ``end``, removed from the kept bytes."""
        count = end - self.begin
        with memoryview(self._kept) as view:
            taken = bytes(view[:count])
        del self._kept[:count]
        self.begin = end
        return taken

    def start_before(self, offset: int) -> Start:
        """The start for reading the content at ``offset`` again; calls never decrease ``offset``."""
        return self._pieces.start_before(offset)

    def check_rest(self) -> None:
        """Read the rest of the file, such as a checksum, to notice damage."""
        try:
            while self.damage is None and self._pieces.read_some(READ_AT_ONCE):
                pass
        except Damage as damage:
            self.damage = str(damage)

    def close(self) -> None:
        """Release the file; may be called again."""
        self._pieces.close()

    def _keep(self, size: int) -> int:
        """Read ``size`` more bytes, fewer only at the end or before damage; returns how many."""
        missing = size
        while missing and self.damage is None:
            try:
                piece = self._pieces.read_some(min(missing, READ_AT_ONCE))
            except Damage as damage:
                self.damage = str(damage)
                break
            if not piece:
                break
            self._kept += piece
            missing -= len(piece)
            if len(self._kept) > LARGEST_RECORD:
                self.damage = f"longer than {LARGEST_RECORD} bytes"
        return size - missing


def pass_over(pieces: Pieces, size: int) -> bool:
    """Pass over ``size`` bytes; False if the content ends before.

    Raises:
      Damage: if the bytes cannot be decompressed.
    """
    while size:
        piece = pieces.read_some(min(size, READ_AT_ONCE))
        if not piece:
            return False
        size -= len(piece)
    return True
