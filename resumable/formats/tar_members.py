"""Walk over the members of a tar archive: names, starts of members, and places of data."""

# Like Python's `tarfile`, this module reads v7, ustar, GNU and PAX archives. Names are bytes, and
# are never used as paths. Where `tarfile` ends quietly or takes a zero for a damaged number, this
# module raises.

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import adler32

from .record import ByteReader

BLOCK: Final = 512
ZEROS: Final = bytes(BLOCK)
LARGEST: Final = 1 << 62
LONGEST_EXTENSION: Final = 1 << 20
"""Bytes of a long name or of PAX records; more are refused, so that memory stays bounded."""

NEAR: Final = 1 << 14
"""Data up to this size are read along with the surrounding headers; larger data are passed over."""

REGULAR: Final = frozenset(b"07S\0")
SPARSE: Final = ord("S")
OLD_REGULAR: Final = 0
WITHOUT_DATA: Final = frozenset(b"123456")
"""Links, devices, directories and pipes: the size in their header is not the size of data."""

EXTENSIONS: Final = frozenset(b"xXgLK")
PAX_LENGTH: Final = re.compile(rb"([0-9]{1,8}) ")
PAX_SIZE: Final = re.compile(rb"[0-9]{1,19}")


class DamagedArchive(Exception):
    """An archive cannot be read any further.

    Args:
      reason: in words that follow the name of the file.
      start: offset of the first header of the member that cannot be read.
    """

    def __init__(self, reason: str, start: int) -> None:
        super().__init__(reason)
        self.start = start


class Member(NamedTuple):
    """A member of an archive.

    Attributes:
      start: offset of the first header, which may hold a long name or PAX records.
      name: as in the archive.
      data: offset of the data.
      size: of the data, in bytes.
      stop: offset after the data and padding.
      regular: whether the member is a regular file.
      sparse: whether the data have holes, which are left out.
    """

    start: int
    name: bytes
    data: int
    size: int
    stop: int
    regular: bool
    sparse: bool


class Blocks:
    """The blocks of an archive, in order.

    Args:
      reader: reads the bytes after ``buffer``; None if ``buffer`` is all.
      offset: of the first byte.
      buffer: the first bytes.
    """

    def __init__(self, reader: ByteReader | None, offset: int, buffer: bytes = b"") -> None:
        self._reader = reader
        self._buffer = buffer
        self._base = offset
        self._offset = 0
        self._far = False

    @property
    def offset(self) -> int:
        """The offset of the next byte."""
        return self._base + self._offset

    @property
    def seen(self) -> int:
        """The offset up to which bytes were read or passed over."""
        return self._base + len(self._buffer)

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end."""
        stop = self._offset + size
        if stop > len(self._buffer):
            self._read(size)
            stop = min(size, len(self._buffer))
        taken = self._buffer[self._offset : stop]
        self._offset = stop
        return taken

    def _read(self, size: int) -> None:
        rest = self._buffer[self._offset :]
        self._base += self._offset
        if self._reader is not None:
            rest += self._reader.read(max(size - len(rest), NEAR // 4 if self._far else 4 * NEAR))
        self._buffer, self._offset = rest, 0

    def pass_over(self, size: int) -> bool:
        """Pass over ``size`` bytes; False if the archive ends before."""
        place = self._offset + size
        beyond = place - len(self._buffer)
        if beyond <= 0:
            self._offset = place
            return True
        self._far = beyond > NEAR
        passed = 0 if self._reader is None else self._reader.skip(beyond)
        self._base += len(self._buffer) + passed
        self._buffer, self._offset = b"", 0
        return passed == beyond


class _TarExtension:
    """The properties of a member from extended headers; the first value of each property counts."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.name: bytes | None = None
        self.size: int | None = None
        self.sparse = False

    def add(self, kind: int, payload: bytes) -> None:
        """Take the properties from an extended header.

        Raises:
          ValueError: if ``payload`` cannot be read.
        """
        if kind == ord("L") and self.name is None:
            self.name = payload.partition(b"\0")[0]
        if kind not in b"xXg":
            return
        given = dict[bytes, bytes]()
        for key, value in _pax_records(payload):
            given[key] = value
            self.sparse |= key.startswith(b"GNU.sparse.")
        name = given.get(b"GNU.sparse.name", given.get(b"path"))
        if self.name is None and name is not None:
            self.name = name.rstrip(b"/")
        if self.size is None and b"size" in given:
            if not PAX_SIZE.fullmatch(given[b"size"]):
                raise ValueError("a PAX header has a size that is no number")
            self.size = int(given[b"size"])


def members(blocks: Blocks) -> Iterator[Member]:
    """The members of an archive, or of several archives one after another.

    Blocks of zeros, which end an archive, are passed over: the next member then begins after the
    `stop` of the previous member. An archive may also end without blocks of zeros.

    Raises:
      DamagedArchive: where the archive cannot be read any further.
    """
    extension: _TarExtension | None = None
    while block := blocks.take(BLOCK):
        begin = blocks.offset - len(block)
        start = begin if extension is None else extension.start
        if not block[0] and block == ZEROS[: len(block)]:
            if extension is not None:
                raise DamagedArchive("an extended header has no member", start)
            continue
        if len(block) < BLOCK:
            raise DamagedArchive("it is cut short in a header", start)
        try:
            name, size, kind = _parsed(block)
            if kind in EXTENSIONS:
                added = extension or _TarExtension(begin)
                payload = _payload(blocks, size)
                if kind == ord("g"):
                    yield _global_header(start, blocks.offset, payload)
                else:
                    added.add(kind, payload)
                    extension = added
                continue
        except ValueError as error:
            raise DamagedArchive(str(error), start) from None
        sparse = kind == SPARSE
        if extension is not None:
            name = name if extension.name is None else extension.name
            size = size if extension.size is None else extension.size
            sparse = sparse or extension.sparse
            extension = None
        elif kind == OLD_REGULAR and name.endswith(b"/"):
            kind = ord("5")
        if kind in WITHOUT_DATA:
            size = 0
        if kind == SPARSE:
            _pass_over_map(blocks, block)
        data = begin + BLOCK
        if not blocks.pass_over(-size % BLOCK + size):
            raise DamagedArchive(f"it is cut short in the data of {shown(name)}", start)
        yield Member(start, name, data, size, blocks.offset, kind in REGULAR, sparse)
    if extension is not None:
        raise DamagedArchive("it is cut short after an extended header", extension.start)


def shown(name: bytes) -> str:
    """A member's name as messages show it, in at most 60 characters."""
    text = ascii(name.decode("utf-8", "replace")) if not name.isascii() else repr(name)[1:]
    return text if len(text) <= 60 else f"{text[:57]}..."


def _payload(blocks: Blocks, size: int) -> bytes:
    if size > LONGEST_EXTENSION:
        raise ValueError(f"an extended header of {size} bytes is too long")
    padded = -size % BLOCK + size
    payload = blocks.take(padded)
    if len(payload) < padded:
        raise ValueError("it is cut short in an extended header")
    return payload[:size]


def _global_header(start: int, stop: int, payload: bytes) -> Member:
    """A header for all later members; refused if it sets a name, a size or sparse data."""
    said = _TarExtension(start)
    said.add(ord("g"), payload)
    if said.name is not None or said.size is not None or said.sparse:
        raise ValueError("a global header gives all members one name or size")
    return Member(start, b"", stop, 0, stop, False, False)


def _pass_over_map(blocks: Blocks, header: bytes) -> None:
    """Pass over the blocks that continue the list of holes in the header of a sparse member."""
    goes_on = header[482]
    while goes_on:
        block = blocks.take(BLOCK)
        goes_on = block[504] if len(block) == BLOCK else 0


def _parsed(block: bytes) -> tuple[bytes, int, int]:
    """Name, size and kind in a header; raises `ValueError` if ``block`` is no header."""
    recorded = _number(block[148:156])
    # Adler's checksum has 1 + the sum of all bytes in its lower half, modulo 65521. The sum is less
    # than twice the modulus. The bytes of the tar checksum itself count as spaces: 8 * 32 = 256.
    summed = adler32(block[156:], adler32(block[:148])) & 0xFFFF
    if recorded - 255 - summed not in (0, 65521) and recorded != _signed_sum(block):
        raise ValueError("a header has a wrong checksum")
    size = _number(block[124:136])
    if not 0 <= size < LARGEST:
        raise ValueError(f"a header has the size {size}")
    name = block[:100].partition(b"\0")[0]
    # GNU archives, with other magic bytes, may have times instead of a prefix.
    if block[345] and block[257:263] == b"ustar\0":
        name = block[345:500].partition(b"\0")[0] + b"/" + name
    return name, size, block[156]


def _signed_sum(block: bytes) -> int:
    """The checksum of some old programs, computed from signed bytes."""
    summed = block[:148] + block[156:]
    return 256 + sum(summed) - 256 * sum(byte > 127 for byte in summed)


def _number(field: bytes) -> int:
    """A number in octal digits, or if the first bit is set, in binary."""
    if field[0] & 0x80:
        if field[0] not in (0x80, 0xFF):
            raise ValueError("a header has a number that cannot be read")
        number = int.from_bytes(field[1:], "big")
        return number if field[0] == 0x80 else number - (1 << 8 * len(field) - 8)
    try:
        return int(field.partition(b"\0")[0].strip() or b"0", 8)
    except ValueError:
        raise ValueError("a header has a number that cannot be read") from None


def _pax_records(payload: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keywords and values of PAX records, which are lines of ``length keyword=value``."""
    place = 0
    while place < len(payload) and payload[place]:
        match = PAX_LENGTH.match(payload, place)
        stop = place + int(match[1]) if match else 0
        if match is None or not match.end() < stop <= len(payload) or payload[stop - 1] != 10:
            raise ValueError("a PAX header has a record that cannot be read")
        keyword, equals, value = payload[match.end() : stop - 1].partition(b"=")
        if not keyword or not equals:
            raise ValueError("a PAX header has a record that cannot be read")
        yield keyword, value
        place = stop
