"""Rows of a fixed length that documents are packed into."""

# Each row is filled from its beginning, without gaps. So all rows together are the documents in the order of
# their rows, joined, with the padding of each row behind its last one.

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.arguments import check_int
from ..core.block import Indices
from ..errors import InvalidArgument
from .documents import POSITIONS, SEGMENT_IDS, Documents, Tokens

Padding: TypeAlias = "float | Mapping[str, float]"
Columns: TypeAlias = dict[str, Tokens]

LEAST: Final = -(2**63)
MOST: Final = 2**64 - 1
"""What the dtypes of integers can hold."""


def best_fit(lengths: Indices, capacity: int) -> Indices:
    """The row of each document, by best-fit decreasing.

    The longest document comes first, and each goes to the fullest row that has space for it. The method
    needs at most 11/9 of the fewest rows possible, and 1 more (D. S. Johnson, *Near-optimal bin packing
    algorithms*, MIT, 1973). Rows are numbered by the first of their documents, so that those with the
    longest documents do not come first.

    Args:
      lengths: of the documents, shape (n,), from 1 to ``capacity``.
      capacity: of a row.
    """
    count = len(lengths)
    rows = [0] * count
    opened = 0
    spaces: list[int] = []  # what is left in a row, times `count`, and its number; ascending
    order = np.argsort(-lengths, kind="stable")
    for document, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        place = bisect_left(spaces, length * count)
        if place < len(spaces):
            space, row = divmod(spaces.pop(place), count)
        else:
            space, row = capacity, opened
            opened += 1
        rows[document] = row
        if space > length:
            insort(spaces, (space - length) * count + row)
    return _numbered_by_first(np.array(rows, np.int64), opened)


def _numbered_by_first(rows: Indices, count: int) -> Indices:
    firsts = np.full(count, len(rows))
    np.minimum.at(firsts, rows, np.arange(len(rows)))
    numbers = np.empty(count, np.int64)
    numbers[np.argsort(firsts)] = np.arange(count)
    return numbers[rows]


def rows_of(documents: Documents, rows: Indices, length: int, padding: Padding) -> Columns:
    """The rows, as columns.

    Args:
      documents: one or more, of at most ``length`` tokens each.
      rows: the row of each, shape (documents,); every row has one or more, which fit into it.
      length: of a row.
      padding: what stands behind the tokens: a value, or one for each field.

    Returns:
      by name, arrays of shape (rows, length, ...): each field, ``segment_ids`` and ``positions``, both int32.
    """
    parts = _parts_of(documents.lengths, rows, length)
    count = int(rows.max()) + 1
    columns = {}
    for name, found in documents.fields.items():
        dtype, shape = found[0].dtype, found[0].shape[1:]
        pad = np.full((length, *shape), padding_of(name, dtype, padding), dtype)
        columns[name] = parts.joined(found, pad).reshape(count, length, *shape)
    columns[SEGMENT_IDS] = np.repeat(parts.segments, parts.lengths).reshape(-1, length)
    columns[POSITIONS] = parts.positions(length).reshape(-1, length)
    return columns


class _RowParts(NamedTuple):
    """What the rows consist of: the documents of each, and its padding if it is not full.

    Attributes:
      numbers: of the documents; -1 for padding.
      lengths: in tokens.
      segments: what is in ``segment_ids``, int32.
    """

    numbers: list[int]
    lengths: list[int]
    segments: npt.NDArray[np.int32]

    def joined(self, documents: Sequence[Tokens], padding: Tokens) -> Tokens:
        """The tokens of all parts; ``padding`` is as long as a row."""
        return np.concatenate(
            [
                padding[:length] if number < 0 else documents[number]
                for number, length in zip(self.numbers, self.lengths, strict=True)
            ]
        )

    def positions(self, length: int) -> Tokens:
        """0, 1, ... for each document, and 0 for padding; rows have ``length``."""
        places, zeros = np.arange(length, dtype=np.int32), np.zeros(length, np.int32)
        return np.concatenate(
            [
                zeros[:length] if number < 0 else places[:length]
                for number, length in zip(self.numbers, self.lengths, strict=True)
            ]
        )


def _parts_of(lengths: Indices, rows: Indices, length: int) -> _RowParts:
    """Those of documents of these lengths in these rows, which have ``length`` tokens."""
    numbers = np.argsort(rows, kind="stable")
    lengths, rows = lengths[numbers], rows[numbers]
    ends = np.flatnonzero(np.diff(rows, append=-1)) + 1  # of each row, in `numbers`
    begins = np.append(0, ends[:-1])
    segments = np.arange(len(rows)) - np.repeat(begins, ends - begins) + 1
    spaces = length - np.add.reduceat(lengths, begins)
    behind = ends[spaces > 0]
    return _RowParts(
        np.insert(numbers, behind, -1).tolist(),
        np.insert(lengths, behind, spaces[spaces > 0]).tolist(),
        np.insert(segments, behind, 0).astype(np.int32),
    )


def ends_short(columns: Columns) -> list[Columns]:
    """The rows of ``columns``, each without its padding."""
    lengths = np.count_nonzero(columns[SEGMENT_IDS], axis=1).tolist()
    return [
        {name: column[row, :length] for name, column in columns.items()}
        for row, length in enumerate(lengths)
    ]


def ends_padded(columns: Columns, length: int, padding: Padding) -> Columns:
    """``columns``, of shape (rows, fewer, ...), as columns of shape (rows, length, ...)."""
    added = {SEGMENT_IDS: 0, POSITIONS: 0}
    padded = {}
    for name, column in columns.items():
        pad = added[name] if name in added else padding_of(name, column.dtype, padding)
        shape = len(column), length, *column.shape[2:]
        padded[name] = np.full(shape, pad, column.dtype)
        padded[name][:, : column.shape[1]] = column
    return padded


def check_padding(padding: Any) -> Padding:
    """Return ``padding`` with numbers of Python.

    Raises:
      InvalidType: if it is neither a number nor a mapping of names to numbers.
      InvalidArgument: if it is an integer that no dtype can hold, or NaN.
    """
    if isinstance(padding, Mapping):
        return {name: _check_value(f"pad[{name!r}]", value) for name, value in padding.items()}
    return _check_value("pad", padding)


def _check_value(name: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if not isinstance(value, (float, np.floating)):
        return check_int(name, value, minimum=LEAST, maximum=MOST)
    if value != value:
        raise InvalidArgument(f"{name} must equal itself, so that a state can say it, got nan")
    return float(value)


def padding_of(name: str, dtype: np.dtype[Any], padding: Padding) -> Any:
    """What a field is padded with, as an array without axes; 0 is the zero of any dtype.

    Raises:
      InvalidArgument: if there is nothing for the field, or ``dtype`` cannot hold it.
    """
    if isinstance(padding, Mapping):
        if name not in padding:
            raise InvalidArgument(f"pad must have a value for each field, got none for {name!r}")
        value = padding[name]
    else:
        value = padding
    if not value:
        return np.zeros((), dtype)
    if not _fits(value, dtype):
        raise InvalidArgument(
            f"pad must fit the tokens of {name!r}, which are {dtype}, got {value}"
        )
    return np.full((), value).astype(dtype)


def _fits(value: float, dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` holds ``value``, rounded if it is one of floating-point numbers."""
    if dtype.kind == "b":
        return value == 1
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return value == value // 1 and limits.min <= value <= limits.max
    if dtype.kind in "fc":
        with np.errstate(over="ignore"):
            return not np.isinf(np.full((), value).astype(dtype)) or abs(value) == np.inf
    try:  # a dtype of another package, such as bfloat16, which NumPy says nothing else about
        np.full((), value).astype(dtype)
    except (TypeError, ValueError):
        return False
    return dtype.isbuiltin == 2
