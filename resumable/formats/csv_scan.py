"""Find the ends of the records of CSV files, a chunk at a time."""

# A newline ends a record outside quotes, as in Python's `csv.reader`. A quote opens a quoted field
# only at the start of a field; elsewhere in an unquoted field a quote is text. A quote in a quoted
# field closes the field; a second quote directly after it opens the field again, with the same
# effect on newlines as a doubled quote.
#
# So if every other quote is at the start of a field, or follows a closing quote, then quotes open
# and close in turns, and array operations find the places. A chunk with a quote as text is read
# quote by quote.
#
# With escapes, comments, or spaces before quotes, every chunk is read quote by quote, since the
# meaning of a byte depends on all earlier bytes. An escape makes text of the next byte, except
# directly after a closing quote, where the escape itself is text. A comment lasts to the end of its
# line.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..core.block import Indices
from .line_scan import CHUNK, NEWLINE, Bytes, blank_lines
from .record import BYTE_ORDER_MARK, ByteReader, FoundRecords

SPACE: Final = 32
LARGEST_DAMAGED: Final = 1 << 12
"""Most bytes of a record with an unclosed quote, which might otherwise take the whole file."""


@dataclass(frozen=True)
class CsvScan:
    """Finds the records of a CSV file; blank records, comments and a header are passed over.

    Attributes:
      delimiter: the byte between fields.
      quote: the byte around fields, or None.
      header: whether the first record that is neither blank nor a comment is a header.
      escape: the byte that makes text of the next byte, or None.
      comment: the first byte of a comment line, or None.
      skips_spaces: whether spaces at the start of a field are left out, also before a quote.
    """

    delimiter: int
    quote: int | None
    header: bool
    escape: int | None = None
    comment: int | None = None
    skips_spaces: bool = False

    def __call__(self, reader: ByteReader, offset: int) -> Iterator[FoundRecords]:
        left = CHUNK if reader.size is None else reader.size - offset
        # The buffer has a byte that stands for the last byte before the chunk, then the chunk.
        buffer = bytearray(1 + max(min(CHUNK, left), len(BYTE_ORDER_MARK)))
        chunk = memoryview(buffer)[1:]
        buffer[0] = NEWLINE
        counted = _RecordCount(self.header and not offset)
        quotes = _Quotes(self)
        last_end = offset
        while count := reader.readinto(chunk):
            if not offset and buffer.startswith(BYTE_ORDER_MARK, 1):
                offset = last_end = len(BYTE_ORDER_MARK)
                count -= offset
                buffer[1 : 1 + count] = buffer[1 + offset : 1 + offset + count]
            text = np.frombuffer(buffer, np.uint8, 1 + count)
            newlines = np.flatnonzero(text[1:] == NEWLINE) + 1
            ends = quotes.outside(text, newlines, offset) + offset
            passed = blank_lines(text, ends - offset, last_end - offset)
            if quotes.comments:
                passed = np.union1d(passed, np.searchsorted(ends - offset, quotes.comments))
            yield counted.found(ends, passed)
            last_end = int(ends[-1]) if len(ends) else last_end
            offset += count
            buffer[0] = quotes.before
        if last_end < offset:
            if quotes.opened is not None:
                offset = min(offset, max(last_end + LARGEST_DAMAGED, quotes.opened + 1))
            passed = np.arange(int(quotes.in_comment), dtype=np.int64)
            yield counted.found(np.array([offset], np.int64), passed)


class _Quotes:
    """Finds the bytes that are in quotes, escaped or in comments, chunk by chunk.

    Attributes:
      opened: offset of the quote that is still open; None outside quotes.
      closed: whether the last byte is a closing quote.
      comments: numbers of the newlines of the last chunk that end a comment, ascending.
      in_comment: whether the last byte is in a comment.
      before: the byte that stands for the last byte before the next chunk: a delimiter or a newline
        only if a field begins after it, a quote only if it closes.
    """

    def __init__(self, scan: CsvScan) -> None:
        self._scan = scan
        marks = scan.quote, scan.escape, scan.comment
        self._marks = [byte for byte in marks if byte is not None]
        self._takes_turns = scan.escape is scan.comment is None and not scan.skips_spaces
        # Bytes that are escaped or in a comment, from the last byte before the next chunk on.
        self._taken = 0
        self.opened: int | None = None
        self.closed = False
        self.comments = list[int]()
        self.in_comment = False
        self.before = NEWLINE

    def outside(self, text: Bytes, newlines: Indices, offset: int) -> Indices:
        """The ``newlines`` that are neither in quotes nor escaped.

        Args:
          text: the byte before a chunk, and the chunk.
          newlines: places in ``text``, shape (n,), int64.
          offset: of the chunk in the file.
        """
        self.before = int(text[-1])
        if not self._marks:
            return newlines
        inside = self.opened is not None
        places = self._by_turns(text) if self._takes_turns else None
        if places is None:
            places = self._one_by_one(text, newlines)
        turns = np.searchsorted(places, newlines)
        if len(places):
            ends_inside = (inside + len(places)) % 2 == 1
            self.opened = offset + int(places[-1]) - 1 if ends_inside else None
        outside: Indices = newlines[(turns + inside) % 2 == 0]
        return outside

    def _by_turns(self, text: Bytes) -> Indices | None:
        """The places of quotes, if every quote opens or closes; else None."""
        quote, inside = self._scan.quote, self.opened is not None
        places = np.flatnonzero(text[1:] == quote) + 1
        before = text[places[int(inside) :: 2] - 1]
        at_start = (before == self._scan.delimiter) | (before == NEWLINE) | (before == quote)
        if not at_start.all():
            return None
        self.closed = bool(text[-1] == quote) and (inside + len(places)) % 2 == 0
        return places

    def _one_by_one(self, text: Bytes, newlines: Indices) -> Indices:
        """The places where quotes, and escapes and comments outside quotes, open or close."""
        scan, last, inside = self._scan, len(text) - 1, self.opened is not None
        closed = 0 if self.closed else -1
        marks = np.flatnonzero(np.isin(text[1:], self._marks)) + 1
        before = np.append(marks - 1, last)
        if scan.skips_spaces:
            before = np.maximum.accumulate(np.where(text == SPACE, 0, np.arange(last + 1)))[before]
        begins = np.isin(text[before], (scan.delimiter, NEWLINE)).tolist()
        starts = before.tolist()
        self.comments.clear()
        taken = self._comment_end(newlines, 0, last) if self.in_comment else self._taken
        turns = [0, taken - 1] if taken > 1 and not inside else []
        found = zip(marks.tolist(), text[marks].tolist(), begins, starts, strict=False)
        for place, byte, begins_field, start in found:
            if place < taken or (byte == scan.escape and closed == place - 1):
                continue
            if byte == scan.quote:
                if inside or closed == place - 1 or (begins_field and start >= taken):
                    closed = place if inside else closed
                    inside = not inside
                    turns.append(place)
                continue
            if byte == scan.escape:
                taken = place + 2
            elif not inside and place > taken and text[place - 1] == NEWLINE:
                taken = self._comment_end(newlines, place, last)
            else:
                continue
            if not inside:
                turns += [place, taken - 1]
        self.closed, self._taken = closed == last, max(taken - last, 0)
        if begins[-1] and starts[-1] >= taken:
            self.before = self.before if starts[-1] == last else scan.delimiter
        elif self._taken or (self.before == scan.quote and not self.closed):
            self.before = 0
        return np.array(turns, np.int64)

    def _comment_end(self, newlines: Indices, place: int, last: int) -> int:
        """The newline that ends the comment at ``place``, or the place after the ``last`` byte."""
        following = newlines[np.searchsorted(newlines, place) :][:1].tolist()
        self.comments += following
        self.in_comment = not following
        return following[0] if following else last + 1


class _RecordCount:
    """Counts records and records passed over.

    Args:
      header: whether the next record that is not blank is a header.
    """

    def __init__(self, header: bool) -> None:
        self._header = header
        self._records = 0
        self._passed_over = 0

    def found(self, ends: Indices, blank: Indices) -> FoundRecords:
        """The records that end at ``ends``; the records with the numbers ``blank`` are blank.

        Both have shape (n,), int64.
        """
        passed = blank
        if self._header and len(blank) < len(ends):
            # The number of the first record that is not blank.
            first = int(np.flatnonzero(np.append(blank, -1) != np.arange(len(blank) + 1))[0])
            passed = np.insert(blank, first, first)
            self._header = False
        before = np.arange(self._passed_over, self._passed_over + len(passed), dtype=np.int64)
        kept_before = passed + self._records - before
        self._records += len(ends)
        self._passed_over += len(passed)
        return FoundRecords(ends, kept_before)
