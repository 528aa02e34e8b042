"""Read the content of a file for a scan, and keep what it reads until its records are taken."""

from __future__ import annotations

from typing import Final

from .pieces import Damage, Pieces, Start

LARGEST_RECORD: Final = 1 << 31
READ_AT_ONCE: Final = 1 << 20


class ScanBuffer:
    """Content in order, as a `ByteReader`, kept from the last record taken on.

    To a scan, damage is the end of the file; what follows from it is the reader's matter.

    Args:
      pieces: the content, from ``offset`` on.
      offset: of a record.

    Attributes:
      size: of the whole content; None if only the end tells.
      begin: offset of what is kept.
      damage: what is wrong with the content after what was read; None if nothing is known to be.
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
        """The content up to ``end``, which is kept no longer."""
        count = end - self.begin
        with memoryview(self._kept) as view:
            taken = bytes(view[:count])
        del self._kept[:count]
        self.begin = end
        return taken

    def start_before(self, offset: int) -> Start:
        """From where to read the content at ``offset`` again, for an offset that never decreases."""
        return self._pieces.start_before(offset)

    def check_rest(self) -> None:
        """Pass over what was not read yet, such as a checksum, so that its damage is noticed."""
        try:
            while self.damage is None and self._pieces.read_some(READ_AT_ONCE):
                pass
        except Damage as damage:
            self.damage = str(damage)

    def close(self) -> None:
        """Release the file; may be called again."""
        self._pieces.close()

    def _keep(self, size: int) -> int:
        """Read ``size`` bytes more, fewer only at the end or before damage; returns how many."""
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
    """Pass over ``size`` bytes; whether there are as many.

    Raises:
      Damage: if they cannot be decompressed.
    """
    while size:
        piece = pieces.read_some(min(size, READ_AT_ONCE))
        if not piece:
            return False
        size -= len(piece)
    return True
