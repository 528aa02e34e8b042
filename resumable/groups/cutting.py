"""Where one stream of documents is cut into rows."""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np

from ..core.block import Indices
from .row_format import RowFormat
from .segments import Segments


class CutRows(NamedTuple):
    """Consecutive rows, and their segments of documents.

    Attributes:
      segments: in order.
      rows: the row of each segment, shape (segments,).
      ends: number of tokens before the end of each row, shape (rows, capacities).
    """

    segments: Segments
    rows: Indices
    ends: Indices


def cut_rows(lengths: Indices, form: RowFormat, *, last: bool) -> CutRows:
    """The rows complete whatever documents come next.

    A row ends where a field is full, and the document that does not fit continues in the next row.
    The row also gets as many tokens of the document's other fields as fit. A row also ends after
    ``max_documents`` documents.

    Args:
      lengths: of the documents, shape (documents, capacities).
      form: of the rows.
      last: whether no documents follow, so the last row may have fewer tokens.
    """
    if form.is_plain:
        return _cut_evenly(lengths[:, 0], form.capacities[0].length, last=last)
    return _cut_one_by_one(lengths, form, last=last)


def _cut_evenly(lengths: Indices, length: int, *, last: bool) -> CutRows:
    """Rows of ``length`` tokens, if only the number of tokens ends a row."""
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
    return filler.cut(last=last)


class _Filler:
    """Fills rows with documents, one by one.

    Args:
      form: of the rows.
    """

    def __init__(self, form: RowFormat) -> None:
        self._most_documents = form.max_documents
        # For each capacity: the most places before a token, the places of a document besides its
        # tokens, and the multiple at which the next document begins.
        self._most = [capacity.most for capacity in form.capacities]
        self._each = [(capacity.added, capacity.align) for capacity in form.capacities]
        self._nothing = [0] * len(self._most)
        self._places = self._nothing  # taken in the last row
        self._documents = 0  # in the last row
        self._numbers: list[int] = []
        self._begins: list[list[int]] = []
        self._lengths: list[list[int]] = []
        self._rows: list[int] = []
        self._row = 0

    def add(self, number: int, length: list[int]) -> None:
        """Put a document into the last row, and the remaining tokens into the next rows."""
        begin, left = self._nothing, length
        while True:
            taken = [
                count if count <= (space := most - places) else max(space, 0)
                for count, most, places in zip(left, self._most, self._places, strict=True)
            ]
            if any(taken):
                self._numbers.append(number)
                self._begins.append(begin)
                self._lengths.append(taken)
                self._rows.append(self._row)
                self._add_document(taken)
            if taken == left:
                break
            self._end_row()
            begin = [passed + count for passed, count in zip(begin, taken, strict=True)]
            left = [count - gone for count, gone in zip(left, taken, strict=True)]
        is_full = all(map(operator.ge, self._places, self._most))
        if is_full or self._documents == self._most_documents:
            self._end_row()

    def _add_document(self, taken: list[int]) -> None:
        self._documents += 1
        self._places = [
            -(-(places + count + added) // align) * align if count else places
            for places, count, (added, align) in zip(self._places, taken, self._each, strict=True)
        ]

    def _end_row(self) -> None:
        self._row += 1
        self._places, self._documents = self._nothing, 0

    def cut(self, *, last: bool) -> CutRows:
        """The ended rows; also the last row, if `last`."""
        if last and self._documents:
            self._end_row()
        rows = np.array(self._rows, np.int64)
        shape = -1, len(self._most)
        segments = Segments(
            np.array(self._numbers, np.int64),
            np.array(self._begins, np.int64).reshape(shape),
            np.array(self._lengths, np.int64).reshape(shape),
        )
        ended = segments.chosen(np.flatnonzero(rows < self._row))
        counts = np.zeros((self._row, len(self._most)), np.int64)
        np.add.at(counts, rows[rows < self._row], ended.lengths)
        return CutRows(ended, rows[rows < self._row], np.cumsum(counts, axis=0))
