"""Bytes in memory, for a scan to read."""

from __future__ import annotations


class MemoryReader:
    """Bytes in memory as a `ByteReader`.

    Attributes:
      size: number of bytes.
    """

    size: int | None

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self._data = memoryview(data)
        self._offset = offset
        self.size = len(data)

    def read(self, size: int) -> bytes:
        found = self._data[self._offset : self._offset + size]
        self._offset += len(found)
        return bytes(found)

    def readinto(self, buffer: memoryview) -> int:
        found = self._data[self._offset : self._offset + len(buffer)]
        buffer[: len(found)] = found
        self._offset += len(found)
        return len(found)

    def skip(self, size: int) -> int:
        count = min(size, len(self._data) - self._offset)
        self._offset += count
        return count
