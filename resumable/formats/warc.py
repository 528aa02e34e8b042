"""Find the records of WARC files, and take them apart."""

# A record is a header of lines, an empty line, as many bytes of content as the header says, and two
# line ends. Each record of a `.warc.gz` is a member of gzip, so that a stream resumes at a member.
#
# A wrong length is noticed because the two line ends are missing. The next record cannot be
# distinguished from content, so the rest of the file is one damaged record.

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ..core.block import NO_INDICES
from .record import ByteReader, Format, FoundRecords, LocatedRecord

READ_AT_ONCE: Final = 1 << 16
LONGEST_HEADER: Final = 1 << 20
MOST_SHOWN: Final = 1 << 12
"""Most bytes of a damaged record."""

BEGIN: Final = b"WARC/"
END: Final = b"\r\n\r\n"
LENGTH: Final = re.compile(rb"\r\nContent-Length:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)", re.IGNORECASE)
FOLDED: Final = re.compile(r"\r\n[ \t]+")
NAMED: Final = {"type": "warc-type", "url": "warc-target-uri", "date": "warc-date", "id": "warc-record-id"}  # fmt: skip


def scan_warc(reader: ByteReader, offset: int) -> Iterator[FoundRecords]:
    """The records from ``offset`` on; see `resumable.formats.record.Scan`."""
    # The bytes from `offset` on, the place of the next record in these bytes, and the ends of
    # earlier records.
    data, place, ends = b"", 0, list[int]()
    while True:
        if len(data) - place < LONGEST_HEADER and data.find(END, place) < 0:
            yield from _found(offset, ends)
            more = reader.read(READ_AT_ONCE)
            data, offset, place, ends = data[place:] + more, offset + place, 0, []
            if more:
                continue
        if place == len(data):
            return
        stop, seen = _stop(reader, data, place)
        ends.append(min(place + MOST_SHOWN, seen) if stop is None else stop)
        if stop is None or stop > len(data):
            yield from _found(offset, ends)
            data, offset, place, ends = b"", offset + ends[-1], 0, []
        else:
            place = stop
        if stop is None:
            return


def _found(offset: int, ends: list[int]) -> Iterator[FoundRecords]:
    if ends:
        yield FoundRecords(np.array(ends, np.int64) + offset, NO_INDICES)


def _stop(reader: ByteReader, data: bytes, place: int) -> tuple[int | None, int]:
    """The end of the record at ``place``, None if damaged; and the end of the bytes seen."""
    seen = len(data)
    try:
        stop = _bounds(data, place)[1]
    except ValueError:
        return None, seen
    tail = data[max(stop - len(END), 0) : stop]
    if (missing := stop - seen) > 0:
        passed = reader.skip(max(missing - len(END), 0))
        more = reader.read(min(missing, len(END)))
        tail, seen = (data[-len(END) :] + more)[-len(END) :], seen + passed + len(more)
    return (stop if stop <= seen and tail == END else None), seen


def _bounds(data: bytes, begin: int = 0) -> tuple[int, int]:
    """The start of the content of the record at ``begin``, and the end of the record.

    Raises:
      ValueError: if the header is damaged or has no single Content-Length.
    """
    if not data.startswith(BEGIN, begin):
        raise ValueError("it does not begin with WARC/, so no record after it can be found")
    header = data.find(END, begin)
    if header < 0:
        raise ValueError("its header does not end")
    if data.find(b"\0", begin, header) >= 0:  # a stretch of zeros may hide whole records
        raise ValueError("its header has a NUL")
    lengths = LENGTH.findall(data, begin, header + 2)
    if len(lengths) != 1:
        raise ValueError(f"its header must have one Content-Length, got {len(lengths)}")
    content = header + len(END)
    return content, content + int(lengths[0]) + len(END)


def parse_warc(record: LocatedRecord) -> dict[str, Any]:
    """The parts of a record.

    Raises:
      MalformedItem: with file and record, if the record is damaged.
    """
    data = record.data
    try:
        begin, end = _bounds(data)
    except ValueError as error:
        raise record.malformed(str(error)) from None
    if end != len(data) or not data.endswith(END):
        size = end - begin - len(END)
        raise record.malformed(
            f"no empty line follows its {size} bytes of content; it is cut off, or Content-Length is wrong"
        )
    text = data[: begin - len(END)].decode("utf-8", "surrogateescape")
    lines = FOLDED.sub(" ", text).split("\r\n")[1:]
    pairs = [
        (name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)
    ]
    values = {name.lower(): value for name, value in pairs}
    named = {key: values.get(name) for key, name in NAMED.items()}
    return {**named, "headers": tuple(pairs), "content": data[begin : -len(END)]}


WARC: Final = Format("warc", "record", scan_warc)
