"""Find the records of TFRecord files, and take them out of their frames."""

# A record is framed by the length of its content (uint64), the masked CRC-32C of these eight bytes,
# the content, and its masked CRC-32C; all numbers are little-endian.
#
# The next record begins after the length of the current record, so the scan follows the lengths one
# by one in a tight loop, and checks the lengths of a whole chunk together afterwards. Content is
# checked when it is decoded.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core.block import NO_INDICES
from ..errors import MalformedItem
from .packages import imported
from .record import ByteReader, Format, FoundRecords, LocatedRecord

Checksums = npt.NDArray[np.uint32]

HEAD: Final = Struct("<QI")
"""The length of the content, and its checksum."""
TAIL: Final = Struct("<I")
FRAME: Final = HEAD.size + TAIL.size
"""Bytes of a record beyond its content."""
HEADS: Final = np.dtype([("length", "<u8"), ("checksum", "<u4")])

FIRST_CHUNK: Final = 1 << 16
CHUNK: Final = 1 << 20
SHORT_CHUNK: Final = 1 << 12
LARGE: Final = 1 << 14
"""Bytes of a record above which passing over the content is cheaper than reading."""

MOST_SHOWN: Final = 1 << 12
"""Most bytes of a damaged record."""

FARTHEST: Final = 1 << 62
"""Most bytes to pass over at once: a damaged length may be impossibly large."""

POLYNOMIAL: Final = 0x82F63B78
MASK: Final = 0xA282EAD8
ALL: Final = 0xFFFFFFFF


def find_records(reader: ByteReader, offset: int) -> Iterator[FoundRecords]:
    """The records from ``offset`` on.

    If a length has a wrong checksum, or the file ends within a record, the rest of the file is one
    record of at most 4 KiB.
    """
    data, size = reader.read(FIRST_CHUNK), FIRST_CHUNK
    while len(data) >= HEAD.size:
        ends, is_damaged = _walked(data)
        beyond = ends[-1] - len(data) if ends else 0
        whole = ends[:-1] if beyond > 0 else ends
        if whole:
            yield _found(offset, whole)
        begin = whole[-1] if whole else 0
        passed = reader.skip(min(beyond, FARTHEST)) if beyond > 0 else 0
        if is_damaged or passed < beyond:
            left = len(data) - begin + passed
            yield _found(offset, [begin + min(left, MOST_SHOWN)])
            return
        if beyond > 0:
            yield _found(offset, ends[-1:])
        offset += ends[-1]
        size = SHORT_CHUNK if ends[-1] >= LARGE * len(ends) else CHUNK
        rest = data[ends[-1] :]
        data = rest + reader.read(size - len(rest))
    if data:
        yield _found(offset, [len(data)])


def _found(offset: int, ends: list[int]) -> FoundRecords:
    return FoundRecords(np.array(ends, np.int64) + offset, NO_INDICES)


def _walked(data: bytes) -> tuple[list[int], bool]:
    """The ends of the records with heads in ``data``; the first record begins at byte 0.

    Returns:
      the ends of the records before the first length with a wrong checksum, of which the last may
      be beyond the data; and whether a checksum is wrong.
    """
    unpack, last = HEAD.unpack_from, len(data) - HEAD.size
    begin, begins = 0, list[int]()
    while begin <= last:
        begins.append(begin)
        begin += unpack(data, begin)[0] + FRAME
    # The head at every offset, as overlapping views of the memory.
    everywhere = np.ndarray((last + 1,), HEADS, data, strides=(1,))
    heads = everywhere[begins]
    wrong = np.flatnonzero(_masked_checksums(heads["length"]) != heads["checksum"])
    sound = int(wrong[0]) if len(wrong) else len(begins)
    return [*begins, begin][1 : sound + 1], len(wrong) > 0


def _masked_checksums(lengths: npt.NDArray[np.uint64]) -> Checksums:
    """The masked CRC-32C of each of ``lengths`` as eight bytes; both have shape (n,)."""
    tables = _tables()
    numbers = lengths ^ np.uint64(ALL)
    sums = np.full(len(numbers), ALL, np.uint32)
    for place in range(8):
        sums ^= tables[7 - place][(numbers >> np.uint64(8 * place)) & np.uint64(0xFF)]
    masked: Checksums = ((sums >> np.uint32(15)) | (sums << np.uint32(17))) + np.uint32(MASK)
    return masked


@cache
def _tables() -> list[Checksums]:
    """The effect on a CRC-32C of a byte with 0 to 7 bytes after it: arrays of shape (256,)."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = (first >> np.uint32(1)) ^ (first & np.uint32(1)) * np.uint32(POLYNOMIAL)
    tables = [first]
    for _ in range(7):
        last = tables[-1]
        tables.append((last >> np.uint32(8)) ^ first[last & np.uint32(0xFF)])
    return tables


@dataclass(frozen=True)
class RecordDecoder:
    """Takes the content of a record out of its frame, and decodes the content.

    Args:
      decode: called with the content; None gives the content itself.

    Raises:
      MissingDependency: without google-crc32c.
    """

    decode: Callable[[bytes], Any] | None = None

    def __post_init__(self) -> None:
        _checksum_of()

    def __call__(self, record: LocatedRecord) -> Any:
        """The item of ``record``.

        Raises:
          MalformedItem: with file and record, if the record is damaged, or ``decode`` raises one.
        """
        content = _content(record)
        if self.decode is None:
            return content
        try:
            return self.decode(content)
        except MalformedItem as error:
            raise record.malformed(str(error)) from error


def _content(record: LocatedRecord) -> bytes:
    data, checksum_of = record.data, _checksum_of()
    if len(data) < HEAD.size:
        raise record.malformed("cut off within its length")
    length, checksum = HEAD.unpack_from(data)
    if _masked(checksum_of(data[:8])) != checksum:
        raise record.malformed("its length has a wrong checksum; no record after it can be found")
    if length + FRAME != len(data):
        raise record.malformed(f"cut off, of {length} bytes of content")
    content = data[HEAD.size : -TAIL.size]
    if _masked(checksum_of(content)) != TAIL.unpack_from(data, HEAD.size + length)[0]:
        raise record.malformed("its content has a wrong checksum")
    return content


def _masked(checksum: int) -> int:
    return ((checksum >> 15 | checksum << 17) + MASK) & ALL


@cache
def _checksum_of() -> Callable[[bytes], int]:
    """Computes the CRC-32C of bytes."""
    module = imported("google_crc32c", "tfrecord needs google-crc32c", "tfrecord")
    checksum_of: Callable[[bytes], int] = module.value
    return checksum_of


def _begins_with_a_head(first: bytes) -> bool:
    # A record of 35,615 bytes, for example, begins like a file compressed by gzip.
    return len(first) >= HEAD.size and len(_walked(first)[0]) == 1


TFRECORD: Final = Format("tfrecord", "record", find_records, recognises=_begins_with_a_head)
