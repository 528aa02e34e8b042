"""Tar archives in memory, and what is read of them without a file."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from resumable.formats.record import LocatedRecord
from resumable.formats.tar import DecodeSample, scan_tar

__all__ = [
    "FORMATS",
    "MemoryReader",
    "archive",
    "as_webdataset",
    "header",
    "numbered",
    "records",
    "samples",
    "sealed",
]

FORMATS: Final = {
    "ustar": tarfile.USTAR_FORMAT,
    "gnu": tarfile.GNU_FORMAT,
    "pax": tarfile.PAX_FORMAT,
}
Members = Iterable[tuple[str, bytes]]


class MemoryReader:
    """A `ByteReader` over bytes in memory, which counts how often it is asked and for how much.

    Args:
      data: the bytes.
      sized: whether it says how many they are.
    """

    def __init__(self, data: bytes, sized: bool = True) -> None:
        self._data = data
        self._place = 0
        self.size = len(data) if sized else None
        self.calls = 0
        self.most = 0

    def read(self, size: int) -> bytes:
        self.calls += 1
        self.most = max(self.most, size)
        start, self._place = self._place, min(self._place + size, len(self._data))
        return self._data[start : self._place]

    def readinto(self, buffer: memoryview) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def skip(self, size: int) -> int:
        self.calls += 1
        start, self._place = self._place, min(self._place + size, len(self._data))
        return self._place - start


def archive(members: Members, kind: int = tarfile.PAX_FORMAT, **options: Any) -> bytes:
    """What Python's `tarfile` writes of names and data."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind, **options) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file.getvalue()


def numbered(count: int, size: int = 10) -> Iterator[tuple[str, bytes]]:
    """Samples of two members each."""
    for number in range(count):
        yield f"folder/{number:06d}.jpg", bytes([number % 251]) * size
        yield f"folder/{number:06d}.json", b'{"label": %d}' % number


def records(data: bytes, offset: int = 0) -> list[LocatedRecord]:
    """The records that the scan finds, without those that are passed over."""
    found, kept, number = [], 0, 0
    start = offset
    for ends, kept_before in scan_tar(MemoryReader(data[offset:]), offset):
        passed_over = kept_before.tolist()
        assert np.all(np.diff(ends, prepend=start) > 0)
        for end in ends.tolist():
            if passed_over and passed_over[0] == kept:
                passed_over.pop(0)
            else:
                number += 1
                found.append(LocatedRecord(data[start:end], "x.tar", number))
                kept += 1
            start = end
        assert not passed_over
    assert start <= len(data)
    return found


def samples(data: bytes, decode: Any = None) -> list[dict[str, Any]]:
    """The samples in ``data``."""
    return list(map(DecodeSample(decode), records(data)))


def header(name: bytes, size: int = 0, kind: bytes = b"0", **fields: bytes) -> bytearray:
    """A header in the format v7, unless ``fields`` say otherwise; each is called by its offset: ``at_257``."""
    block = bytearray(512)
    block[: len(name)] = name
    block[124:136] = b"%011o\0" % size
    block[156:157] = kind
    for place, value in fields.items():
        at = int(place[3:])
        block[at : at + len(value)] = value
    return sealed(block)


def sealed(block: bytearray) -> bytearray:
    """``block`` with the checksum that it should have."""
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return block


def as_webdataset(data: bytes) -> list[dict[str, Any]]:
    """What WebDataset makes of an archive, without the place of the file. It must be installed."""
    from webdataset.tariterators import group_by_keys, tar_file_expander

    source = [{"url": "x.tar", "stream": io.BytesIO(data)}]
    found = [dict(sample) for sample in group_by_keys(tar_file_expander(source))]
    for sample in found:
        del sample["__url__"]
    return found
