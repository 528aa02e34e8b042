"""Packing and bucketing by hand, of one group of documents."""

# Also what a user of a loader without such a stage writes, and hands it as a function of a group.

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "Document",
    "batches_of_like_length",
    "cut",
    "filled",
    "packed",
    "padded",
    "rows_of_whole",
]

Document: TypeAlias = npt.NDArray[np.integer[Any]]


def cut(document: Document, length: int) -> list[Document]:
    """Pieces of at most ``length`` tokens."""
    return [document[start : start + length] for start in range(0, len(document), length)]


def packed(documents: Sequence[Document], length: int) -> dict[str, npt.NDArray[Any]]:
    """Rows of a group of documents that stay whole, unless they are longer than ``length``."""
    pieces = [piece for document in documents for piece in cut(document, length)]
    return filled(rows_of_whole(pieces, length), length)


def rows_of_whole(pieces: Sequence[Document], length: int) -> list[list[Document]]:
    """Best-fit decreasing: each goes to the fullest row that has space for it, the longest first."""
    rows: list[list[Document]] = []
    spaces: list[tuple[int, int]] = []  # what is left, and in which row; ascending
    for piece in sorted(pieces, key=len, reverse=True):
        place = bisect_left(spaces, (len(piece),))
        if place < len(spaces):
            space, row = spaces.pop(place)
            rows[row].append(piece)
        else:
            space, row = length, len(rows)
            rows.append([piece])
        if space > len(piece):
            insort(spaces, (space - len(piece), row))
    return rows


def filled(rows: Sequence[Sequence[Document]], length: int) -> dict[str, npt.NDArray[Any]]:
    """Tokens, segment ids and positions, of shape (rows, length)."""
    shape = len(rows), length
    tokens = np.zeros(shape, rows[0][0].dtype)
    segment_ids, positions = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    places = np.arange(length, dtype=np.int32)
    for number, row in enumerate(rows):
        start = 0
        for segment, piece in enumerate(row, 1):
            stop = start + len(piece)
            tokens[number, start:stop] = piece
            segment_ids[number, start:stop] = segment
            positions[number, start:stop] = places[: len(piece)]
            start = stop
    return {"tokens": tokens, "segment_ids": segment_ids, "positions": positions}


def batches_of_like_length(
    documents: Sequence[Document], boundaries: Sequence[int], batch_size: int
) -> Iterator[list[Document]]:
    """Batches of a group of documents, from the shortest to the longest."""
    ascending = sorted(documents, key=len)
    edges = np.searchsorted([len(document) for document in ascending], boundaries).tolist()
    for first, last in pairwise([0, *edges, len(ascending)]):
        for begin in range(first, last, batch_size):
            yield ascending[begin : min(begin + batch_size, last)]


def padded(documents: Sequence[Document]) -> Document:
    """The documents as rows with zeros behind them."""
    rows = np.zeros((len(documents), max(map(len, documents))), documents[0].dtype)
    for row, document in zip(rows, documents, strict=True):
        row[: len(document)] = document
    return rows
