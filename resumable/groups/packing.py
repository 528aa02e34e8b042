"""Which row each document goes to, where documents stay whole."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from ..core.block import Indices


def best_fit(lengths: Indices, capacities: Indices) -> Indices:
    """The row of each document, by best-fit decreasing.

    The document that takes the largest share of a row comes first, and each goes to the fullest row that has
    space for it. With one capacity the method needs at most 11/9 of the fewest rows possible, and 1 more
    (D. S. Johnson, *Near-optimal bin packing algorithms*, MIT, 1973). With several, the capacity that binds is
    the one of which the document takes the largest share: the fullest row is the one with the least space
    there, and among these the one with the least in all, as a share of the capacities.

    Rows are numbered by the first of their documents, so that those with the longest documents do not
    come first.

    Args:
      lengths: of the documents, shape (n, capacities), each from 0 to its capacity, and not all 0.
      capacities: of a row, shape (capacities,).

    Returns:
      numbers of rows, shape (n,).
    """
    if len(capacities) == 1:
        rows = _fitted(lengths[:, 0], int(capacities[0]))
    else:
        rows = _fitted_to_several(lengths, capacities)
    return _numbered_by_first(rows)


def _fitted(lengths: Indices, capacity: int) -> Indices:
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
    return np.array(rows, np.int64)


def _fitted_to_several(lengths: Indices, capacities: Indices) -> Indices:
    shares = lengths / capacities
    binding = shares.argmax(axis=1).tolist()
    rows = np.zeros(len(lengths), np.int64)
    spaces = np.empty((len(capacities), len(lengths)), np.int64)  # of the rows that are opened
    opened = 0
    for document in np.argsort(-shares.max(axis=1), kind="stable").tolist():
        needed = lengths[document]
        fits = np.flatnonzero((spaces[:, :opened] >= needed[:, None]).all(axis=0))
        if len(fits):
            left = spaces[binding[document], fits]
            fits = fits[left == left.min()]
            row = fits[0] if len(fits) == 1 else fits[_shares(spaces[:, fits], capacities).argmin()]
        else:
            row = opened
            spaces[:, row] = capacities
            opened += 1
        rows[document] = row
        spaces[:, row] -= needed
    return rows


def _shares(spaces: Indices, capacities: Indices) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    shares: np.ndarray[tuple[int], np.dtype[np.float64]] = (spaces / capacities[:, None]).sum(
        axis=0
    )
    return shares


def _numbered_by_first(rows: Indices) -> Indices:
    count = int(rows.max(initial=-1)) + 1
    firsts = np.full(count, len(rows))
    np.minimum.at(firsts, rows, np.arange(len(rows)))
    numbers = np.empty(count, np.int64)
    numbers[np.argsort(firsts)] = np.arange(count)
    return numbers[rows]
