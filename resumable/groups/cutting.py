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
    fields, a row has as many tokens as fit, too. It also ends with the most documents that it may have.

    Args:
      lengths: of the documents, shape (documents, capacities).
      form: of the rows.
      last: whether nothing comes next, so that the last row may have fewer tokens.
    """
    if form.is_plain:
        return _cut_evenly(lengths[:, 0], form.capacities[0].length, last=last)
    return _cut_one_by_one(lengths, form, last=last)


def _cut_evenly(lengths: Indices, length: int, *, last: bool) -> CutRows:
    """Rows of ``length`` tokens, where nothing else ends a row."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    stop = total if last else total - total % length
    if not stop:
        none = np.empty((0, 1), np.int64)
        return CutRows(Segments(none[:, 0], none, none), none[:, 0], none)
    inner = ends[ends < stop]
    begins = np.sort(np.append(np.arange(0, stop, length), inner))
    begins = begins[np.diff(begins, prepend=-1) > 0]
    numbers = np.searchsorted(ends, begins, "right")
    offsets = begins - (ends - lengths)[numbers]
    segments = Segments(numbers, offsets[:, None], np.diff(begins, append=stop)[:, None])
    rows = np.arange(0, stop, length)
    return CutRows(segments, begins // length, np.minimum(rows + length, stop)[:, None])


def _cut_one_by_one(lengths: Indices, form: RowFormat, *, last: bool) -> CutRows:
    filler = _Filler(form)
    for number, length in enumerate(lengths.tolist()):
        filler.add(number, length)
    if last and filler.is_begun:
        filler.end_row()
    return filler.cut()


class _Filler:
    """Fills rows with documents, one by one.

    Args:
      form: of the rows.
    """

    def __init__(self, form: RowFormat) -> None:
        self._capacities = form.capacities
        self._most_documents = form.max_documents
        self._places = [0] * len(form.capacities)  # that are taken in the last row
        self._documents = 0  # in the last row
        self._read = [0] * len(form.capacities)  # tokens that are in rows
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
            taken = [max(min(pair), 0) for pair in zip(left, self._spaces, strict=True)]
            if any(taken):
                self._numbers.append(number)
                self._begins.append(begin)
                self._lengths.append(taken)
                self._rows.append(len(self._ends))
                self._read = list(map(sum, zip(self._read, taken, strict=True)))
                self._place(taken)
                begin = list(map(sum, zip(begin, taken, strict=True)))
            if begin != length or self._is_full:
                self.end_row()

    @property
    def _spaces(self) -> list[int]:
        """How many tokens of each capacity fit into the last row; below 1 for none."""
        return [
            capacity.most - places
            for capacity, places in zip(self._capacities, self._places, strict=True)
        ]

    @property
    def _is_full(self) -> bool:
        return self._documents == self._most_documents or max(self._spaces) < 1

    def _place(self, taken: list[int]) -> None:
        self._documents += 1
        self._places = [
            capacity.aligned(places + count + capacity.added) if count else places
            for capacity, places, count in zip(self._capacities, self._places, taken, strict=True)
        ]

    def end_row(self) -> None:
        """Begin another row."""
        self._ends.append(self._read)
        self._places, self._documents = [0] * len(self._capacities), 0

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
