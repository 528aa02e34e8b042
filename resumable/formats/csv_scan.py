"""Find the ends of the records of CSV files, a chunk at a time."""

# A newline ends a record outside quotes, as in Python's `csv.reader`. A quote opens a quoted field
# only where a field begins; elsewhere in an unquoted field it is text. A quote in a quoted field
# closes it; if another follows at once, that one opens it again, which is the same for newlines as
# a doubled quote.
#
# So if each second quote stands where a field begins, or follows one that closes, then quotes
# open and close by turns, and array operations find where. Only a chunk in which a quote is text is
# read quote by quote.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..core.block import Indices
from .line_scan import CHUNK, NEWLINE, Bytes, blank_lines
from .record import ByteReader, FoundRecords

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
LARGEST_DAMAGED: Final = 1 << 12
"""Most bytes of a record with an unclosed quote, which might else take the rest of the file."""


@dataclass(frozen=True)
class CsvScan:
    """Finds the records of a CSV file; blank ones and a header are passed over.

    Attributes:
      delimiter: the byte between fields.
      quote: the byte around fields, or None.
      header: whether the first record that is not blank is a header.
    """

    delimiter: int
    quote: int | None
    header: bool

    def __call__(self, reader: ByteReader, offset: int) -> Iterator[FoundRecords]:
        left = CHUNK if reader.size is None else reader.size - offset
        # It holds a byte that stands for the one before a chunk, then the chunk.
        buffer = bytearray(1 + max(min(CHUNK, left), len(BYTE_ORDER_MARK)))
        chunk = memoryview(buffer)[1:]
        buffer[0] = NEWLINE
        counted = _RecordCount(self.header and not offset)
        quotes = _Quotes(self.delimiter, self.quote)
        last_end = offset
        while count := reader.readinto(chunk):
            text = np.frombuffer(buffer, np.uint8, 1 + count)
            if not offset and buffer.startswith(BYTE_ORDER_MARK, 1):
                last_end = len(BYTE_ORDER_MARK)
                buffer[last_end] = self.delimiter  # a field begins after it
            newlines = np.flatnonzero(text[1:] == NEWLINE) + 1
            ends = quotes.outside(text, newlines, offset) + offset
            yield counted.found(ends, blank_lines(text, ends - offset, last_end - offset))
            last_end = int(ends[-1]) if len(ends) else last_end
            offset += count
            buffer[0] = buffer[count] if quotes.closed or buffer[count] != self.quote else 0
        if last_end < offset:
            if quotes.opened is not None:
                offset = min(offset, max(last_end + LARGEST_DAMAGED, quotes.opened + 1))
            yield counted.found(np.array([offset], np.int64), np.empty(0, np.int64))


class _Quotes:
    """Which bytes are in quotes, chunk by chunk.

    Attributes:
      opened: where the quote is that was opened and is not closed yet; None outside quotes.
      closed: whether the last byte is a quote that closes.
    """

    def __init__(self, delimiter: int, quote: int | None) -> None:
        self._delimiter = delimiter
        self._quote = quote
        self.opened: int | None = None
        self.closed = False

    def outside(self, text: Bytes, newlines: Indices, offset: int) -> Indices:
        """Those of ``newlines`` that are not in quotes.

        Args:
          text: the byte before a chunk, and the chunk.
          newlines: places in ``text``, shape (n,), int64.
          offset: of the chunk in the file.
        """
        if self._quote is None:
            return newlines
        places = np.flatnonzero(text[1:] == self._quote) + 1
        inside = self.opened is not None
        before = text[places[int(inside) :: 2] - 1]
        at_start = (before == self._delimiter) | (before == NEWLINE) | (before == self._quote)
        if not at_start.all():
            places = self._one_by_one(text, places)
        turns = np.searchsorted(places, newlines)
        if len(places):
            ends_inside = (inside + len(places)) % 2 == 1
            self.opened = offset + int(places[-1]) - 1 if ends_inside else None
            self.closed = not ends_inside and int(places[-1]) == len(text) - 1
        else:
            self.closed = False
        outside: Indices = newlines[(turns + inside) % 2 == 0]
        return outside

    def _one_by_one(self, text: Bytes, places: Indices) -> Indices:
        """The quotes at ``places`` that open or close."""
        inside = self.opened is not None
        starts = self._delimiter, NEWLINE
        found, closed = list[int](), 0 if self.closed else -1
        for place, before in zip(places.tolist(), text[places - 1].tolist(), strict=True):
            if inside:
                closed = place
            elif before not in starts and closed != place - 1:
                continue
            inside = not inside
            found.append(place)
        return np.array(found, np.int64)


class _RecordCount:
    """Counts records and those passed over.

    Args:
      header: whether the next record that is not blank is a header.
    """

    def __init__(self, header: bool) -> None:
        self._header = header
        self._records = 0
        self._passed_over = 0

    def found(self, ends: Indices, blank: Indices) -> FoundRecords:
        """The records that end at ``ends``; those with the numbers ``blank`` are blank.

        Both have shape (n,), int64.
        """
        passed = blank
        if self._header and len(blank) < len(ends):
            # The first number that no blank record has.
            first = int(np.flatnonzero(np.append(blank, -1) != np.arange(len(blank) + 1))[0])
            passed = np.insert(blank, first, first)
            self._header = False
        before = np.arange(self._passed_over, self._passed_over + len(passed), dtype=np.int64)
        kept_before = passed + self._records - before
        self._records += len(ends)
        self._passed_over += len(passed)
        return FoundRecords(ends, kept_before)
