"""Make rows of a fixed length from segments of documents."""

# Each row is filled from its beginning. So all rows together are the segments in the order of their
# rows, joined, with the padding of a row after its last segment.

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.block import Indices
from .documents import Documents, Tokens
from .filling import filling
from .row_format import Capacity, RowFormat
from .segments import Segments

Columns: TypeAlias = dict[str, Tokens]


def rows_of(documents: Documents, segments: Segments, rows: Indices, form: RowFormat) -> Columns:
    """The rows, as columns.

    Args:
      documents: the documents of the segments.
      segments: not empty.
      rows: the row of each segment, shape (segments,); every row has at least one segment, and all
        its segments fit.
      form: of the rows.

    Returns:
      by name, arrays of shape (rows, length, ...): each field, and for each capacity the segment
      ids and the positions, both int32.
    """
    order = np.argsort(rows, kind="stable")
    placed, division = segments.chosen(order), _Division.of(rows[order])
    are_whole = segments.are_whole(documents)
    columns = {}
    for number, capacity in enumerate(form.capacities):
        lengths = placed.lengths[:, number]
        origins = placed.numbers if are_whole else np.arange(len(lengths))
        parts = _parts_of(lengths, origins, division, capacity)
        shape = len(division.ends), capacity.length
        for name in documents.fields if capacity.field is None else [capacity.field]:
            found = documents.fields[name]
            dtype, inner = found[0].dtype, found[0].shape[1:]
            pad = np.full((capacity.length, *inner), filling("pad", form.pad, name, dtype), dtype)
            tokens = found if are_whole else placed.tokens(found, number)
            column = parts.within(capacity).joined(tokens, pad)
            if capacity.bos and form.bos is not None:
                column[parts.begins] = filling("bos", form.bos, name, dtype)
            if capacity.eos and form.eos is not None:
                column[parts.ends - 1] = filling("eos", form.eos, name, dtype)
            columns[name] = column.reshape(*shape, *inner)
        columns[capacity.segment_ids] = np.repeat(parts.ids, parts.lengths).reshape(shape)
        columns[capacity.positions] = parts.positions(capacity.length).reshape(shape)
    return columns


class _Division(NamedTuple):
    """The beginning and end of each row, in segments sorted by row.

    Attributes:
      begins: the first segment of each row, shape (rows,).
      ends: the segment after the last segment of each row, shape (rows,).
      ids: the number of each segment in its row, from 1, shape (segments,).
    """

    begins: Indices
    ends: Indices
    ids: Indices

    @classmethod
    def of(cls, rows: Indices) -> _Division:
        ends = np.flatnonzero(np.diff(rows, append=-1)) + 1
        begins = np.append(0, ends[:-1])
        return cls(begins, ends, np.arange(len(rows)) - np.repeat(begins, ends - begins) + 1)


class _RowParts(NamedTuple):
    """The parts of all rows: the segments of each row, and the padding after the segments.

    Attributes:
      numbers: of the arrays with the tokens; -1 for padding.
      lengths: in places.
      ids: the values of ``segment_ids``, int32.
    """

    numbers: list[int]
    lengths: list[int]
    ids: npt.NDArray[np.int32]

    @property
    def begins(self) -> Indices:
        """The first place of each segment with tokens, in all rows joined, shape (n,)."""
        begins: Indices = np.cumsum([0, *self.lengths[:-1]])
        return begins[self._are_tokens]

    @property
    def ends(self) -> Indices:
        """The place after the last place of each segment with tokens, shape (n,)."""
        ends: Indices = np.cumsum(self.lengths)
        return ends[self._are_tokens]

    @property
    def _are_tokens(self) -> npt.NDArray[np.bool_]:
        return (np.array(self.numbers) >= 0) & (np.array(self.lengths) > 0)

    def within(self, capacity: Capacity) -> _RowParts:
        """The same, with the tokens around segments as separate parts, marked as padding."""
        if not capacity.added:
            return self
        numbers, lengths = list[int](), list[int]()
        for number, length in zip(self.numbers, self.lengths, strict=True):
            is_segment = number >= 0 and length > 0
            before, behind = (is_segment and capacity.bos, is_segment and capacity.eos)
            numbers += [*[-1] * before, number, *[-1] * behind]
            lengths += [*[1] * before, length - before - behind, *[1] * behind]
        return _RowParts(numbers, lengths, self.ids)

    def joined(self, tokens: Sequence[Tokens], padding: Tokens) -> Tokens:
        """The tokens of all parts; ``padding`` is as long as a row."""
        return np.concatenate(
            [
                padding[:length] if number < 0 else tokens[number]
                for number, length in zip(self.numbers, self.lengths, strict=True)
            ]
        )

    def positions(self, length: int) -> Tokens:
        """0, 1, ... for each segment, and 0 for padding; rows have ``length``."""
        places, zeros = np.arange(length, dtype=np.int32), np.zeros(length, np.int32)
        return np.concatenate(
            [
                zeros[:length] if number < 0 else places[:length]
                for number, length in zip(self.numbers, self.lengths, strict=True)
            ]
        )


def _parts_of(
    lengths: Indices, numbers: Indices, division: _Division, capacity: Capacity
) -> _RowParts:
    """The parts of segments of ``lengths``, with tokens in the arrays ``numbers``, shape (n,)."""
    places = capacity.places(lengths) if capacity.added else lengths
    aligned = capacity.aligned(places) if capacity.align > 1 else places
    spaces = aligned - places  # after each segment
    spaces[division.ends - 1] += capacity.length - np.add.reduceat(aligned, division.begins)
    padded = np.flatnonzero(spaces)
    behind = padded + 1
    return _RowParts(
        np.insert(numbers, behind, -1).tolist(),
        np.insert(places, behind, spaces[padded]).tolist(),
        np.insert(division.ids, behind, 0).astype(np.int32),
    )


def ends_short(columns: Columns, form: RowFormat) -> list[Columns]:
    """The rows of ``columns``, each without its padding."""
    first, *others = [_ended(columns, capacity) for capacity in form.capacities]
    for rows in others:
        for row, more in zip(first, rows, strict=True):
            row.update(more)
    return first


def _ended(columns: Columns, capacity: Capacity) -> list[Columns]:
    """The rows of ``columns``, with the columns of one capacity, each without its padding."""
    ids = columns[capacity.segment_ids]
    lengths = np.count_nonzero(ids, axis=1).tolist()
    if capacity.align > 1:  # there is padding between segments, too
        last = capacity.length - (ids[:, ::-1] > 0).argmax(axis=1)
        lengths = np.where(ids.any(axis=1), last, 0).tolist()
    if capacity.field is not None:
        names = capacity.field, capacity.segment_ids, capacity.positions
        columns = {name: columns[name] for name in names}
    return [
        {name: column[row, :length] for name, column in columns.items()}
        for row, length in enumerate(lengths)
    ]
