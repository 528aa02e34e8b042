"""Where one stream of documents is cut into rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.block import Indices
from .row_format import RowFormat
from .segments import Segments


class CutRows(NamedTuple):
    """Consecutive rows, and the segments of documents that are in them.

    Attributes:
      segments: in order.
      rows: the row of each segment, shape (segments,).
      ends: how many tokens come before the end of each row, shape (rows, capacities).
    """

    segments: Segments
    rows: Indices
    ends: Indices


def cut_rows(lengths: Indices, form: RowFormat, *, last: bool) -> CutRows:
    """As many rows as are complete whatever comes next.

    A row ends where a field is full, and the document that does not fit goes on in the next row. Of its other
    fields, a row has as many tokens as fit, too.

    Args:
      lengths: of the documents, shape (documents, capacities).
      form: of the rows.
      last: whether nothing comes next, so that the last row may have fewer tokens.
    """
    if len(form.capacities) == 1:
        return _cut_evenly(lengths[:, 0], form.capacities[0].length, last=last)
    return _cut_one_by_one(lengths, form, last=last)


def _cut_evenly(lengths: Indices, length: int, *, last: bool) -> CutRows:
    """Rows of ``length`` tokens, where nothing else ends a row."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    stop = total if last else total - total % length
    inner = ends[ends < stop]
    begins = np.sort(np.append(np.arange(0, stop, length), inner))
    begins = begins[np.diff(begins, prepend=-1) > 0]
    numbers = np.searchsorted(ends, begins, "right")
    offsets = begins - (ends - lengths)[numbers]
    segments = Segments(numbers, offsets[:, None], np.diff(begins, append=stop)[:, None])
    rows = np.arange(0, stop, length)
    return CutRows(segments, begins // length, np.minimum(rows + length, stop)[:, None])


def _cut_one_by_one(lengths: Indices, form: RowFormat, *, last: bool) -> CutRows:
    filler = _Filler(form.lengths.tolist())
    for number, length in enumerate(lengths.tolist()):
        filler.add(number, length)
    if last and filler.is_begun:
        filler.end_row()
    return filler.cut()


class _Filler:
    """Fills rows with documents, one by one.

    Args:
      capacities: of a row.
    """

    def __init__(self, capacities: list[int]) -> None:
        self._capacities = capacities
        self._spaces = capacities
        self._read = [0] * len(capacities)  # tokens that are in rows
        self._numbers: list[int] = []
        self._begins: list[list[int]] = []
        self._lengths: list[list[int]] = []
        self._rows: list[int] = []
        self._ends: list[list[int]] = []  # `_read` at the end of each row

    @property
    def is_begun(self) -> bool:
        """Whether the last row has a segment."""
        return len(self._rows) > 0 and self._rows[-1] == len(self._ends)

    def add(self, number: int, length: list[int]) -> None:
        """Put a document into the last row, and what does not fit into the next ones."""
        begin = [0] * len(length)
        while begin != length:
            left = [whole - passed for whole, passed in zip(length, begin, strict=True)]
            taken = list(map(min, left, self._spaces))
            if any(taken):
                self._numbers.append(number)
                self._begins.append(begin)
                self._lengths.append(taken)
                self._rows.append(len(self._ends))
                self._spaces = [
                    space - count for space, count in zip(self._spaces, taken, strict=True)
                ]
                self._read = list(map(sum, zip(self._read, taken, strict=True)))
                begin = list(map(sum, zip(begin, taken, strict=True)))
            if begin != length or not any(self._spaces):
                self.end_row()

    def end_row(self) -> None:
        """Begin another row."""
        self._ends.append(self._read)
        self._spaces = self._capacities

    def cut(self) -> CutRows:
        """The rows that have ended."""
        rows = np.array(self._rows, np.int64)
        shape = -1, len(self._capacities)
        segments = Segments(
            np.array(self._numbers, np.int64),
            np.array(self._begins, np.int64).reshape(shape),
            np.array(self._lengths, np.int64).reshape(shape),
        )
        are_ended = np.flatnonzero(rows < len(self._ends))
        ends = np.array(self._ends, np.int64).reshape(shape)
        return CutRows(segments.chosen(are_ended), rows[are_ended], ends)
