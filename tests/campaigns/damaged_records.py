"""Damaged files of records, whose scans and decoders are tried in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from campaigns.hostile_bytes import damage
from formats.archives import MemoryReader

import resumable as rs
from resumable.formats.record import Format, LocatedRecord

__all__ = [
    "REFUSED",
    "RecordTarget",
    "all_lines_of",
    "check_named",
    "damaged_anywhere",
    "lines_of",
    "text_files",
]

MOST_READ: Final = 1 << 21
"""Bytes that a scan may ask for at once."""
REFUSED: Final = "what was refused"
"""Stands where a record gives no item."""


class RecordTarget(NamedTuple):
    """A format to damage files of.

    Attributes:
      format: finds the records.
      decode: makes items of them.
      real: good files; small ones, so that damage strikes what matters.
      damaged: a file that follows from random choices and the good ones.
      expected: what another reader makes of the first records of a file, damaged or not: items, and
        `REFUSED` for others; and whether that is all of the file. None if there is no other reader.
    """

    format: Format
    decode: Callable[[LocatedRecord], Any]
    real: list[bytes]
    damaged: Callable[[Random, list[bytes]], bytes]
    expected: Callable[[bytes], tuple[list[Any], bool]] | None = None

    def read(self, data: bytes, folder: Path) -> tuple[int, int]:
        """Read ``data`` as a file: how many records gave items, and how many were refused.

        Raises:
          AssertionError: if the scan breaks a rule of `resumable.formats.record.Scan`, or the items
            are not as ``expected``.
        """
        items = self._items(data)
        if self.expected is not None:
            others, complete = self.expected(data)
            found = items if complete else items[: len(others)]
            assert repr(found) == repr(others), f"{found!r} and not {others!r}"
        refused = items.count(REFUSED)
        return len(items) - refused, refused

    def _items(self, data: bytes) -> list[Any]:
        reader = MemoryReader(data)
        items, start, records = list[Any](), 0, 0
        for ends, kept_before in self.format.scan(reader, 0):
            skipped = kept_before.tolist()
            for end in ends.tolist():
                assert start <= end <= len(data), f"record {records} ends at {end} of {len(data)}"
                if skipped and skipped[0] == len(items):
                    del skipped[0]
                else:
                    items.append(self._item(data[start:end], records + 1))
                start = end
                records += 1
            assert not skipped, f"{len(skipped)} records passed over are not there"
        assert reader.most <= MOST_READ, f"{reader.most} bytes were read at once"
        assert reader.calls <= len(data) / 8 + 100, f"{reader.calls} reads of {len(data)} bytes"
        return items

    def _item(self, data: bytes, number: int) -> Any:
        stripped = self.format.stripped
        record = LocatedRecord(data if stripped is None else stripped(data), "x", number)
        try:
            return self.decode(record)
        except rs.MalformedItem as error:
            check_named(error, "x")
            return REFUSED


def check_named(error: Exception, path: str) -> None:
    """Check that ``error`` begins with the file.

    Raises:
      AssertionError: if it does not.
    """
    assert str(error).startswith(path), f"no file is named: {error}"


def damaged_anywhere(random: Random, real: list[bytes]) -> bytes:
    return damage(random, random.choice(real), real)


def text_files() -> list[bytes]:
    """Lines that end in both ways, blank ones, and a last one without an end."""
    numbered_lines = b"".join(b"line %d\n" % number for number in range(40))
    return [b"one\r\ntwo\n\n\r\n" + "fünf\nlast".encode(), numbered_lines, b"\n" * 9]


def lines_of(data: bytes) -> list[bytes]:
    """Those that are not blank, without what ends them."""
    return list(filter(None, all_lines_of(data)))


def all_lines_of(data: bytes) -> list[bytes]:
    *whole, last = data.split(b"\n")
    return [line.removesuffix(b"\r") for line in whole] + [last] * bool(last)
