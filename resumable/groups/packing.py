"""Choose the row of each document; documents stay whole."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

import numpy as np

from ..core.block import Indices

ALIKE: Final = 1e-6
"""Proportions count as equal if they differ by less than this, times the space left."""
LEAST: Final = 1e-9


def best_fit(lengths: Indices, capacities: Indices) -> Indices:
    """The row of each document, by best-fit decreasing.

    Documents go in descending order of their largest share of a row, each to the fullest row with
    enough space. With one capacity the method needs at most 11/9 of the fewest rows possible, and 1
    more (D. S. Johnson, *Near-optimal bin packing algorithms*, MIT, 1973). With several capacities,
    a document goes to the row whose space has the proportions most like the document's, so no
    capacity is used up while much of another is left; among equal rows to the fullest (R. Panigrahy
    et al., *Heuristics for vector bin packing*, 2011).

    Rows are numbered by their first documents, so the rows with the longest documents do not come
    first.

    Args:
      lengths: of the documents, shape (n, capacities), each from 0 to its capacity, and not all 0.
      capacities: of a row, shape (capacities,).

    Returns:
      numbers of rows, shape (n,).
    """
    lengths, capacities = _different(lengths, capacities)
    if len(capacities) == 1:
        rows = _fitted(lengths[:, 0], int(capacities[0]))
    else:
        rows = _fitted_to_several(lengths, capacities)
    return _numbered_by_first(rows)


def _different(lengths: Indices, capacities: Indices) -> tuple[Indices, Indices]:
    """Both arrays without the capacities implied by another, as for a mask beside tokens."""
    if len(capacities) == 1:
        return lengths, capacities
    # Exact, as products of capacities may exceed an int64.
    needs, spaces = lengths.T.astype(object), capacities.tolist()
    kept = list(range(len(spaces)))
    for place, (need, space) in enumerate(zip(needs, spaces, strict=True)):
        others = [other for other in kept if other != place]
        # Documents fit here if they fit another capacity, of which each takes as large a share.
        if any((need * spaces[other] <= needs[other] * space).all() for other in others):
            kept = others
    return lengths[:, kept], capacities[kept]


def _fitted(lengths: Indices, capacity: int) -> Indices:
    count = len(lengths)
    rows = [0] * count
    opened = 0
    spaces: list[int] = []  # the space left in a row, times `count`, plus its number; ascending
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
    rows = np.zeros(len(lengths), np.int64)
    # For each opened row: the space, the space as shares of the capacities, the sum of the shares,
    # and the length of their vector.
    spaces = np.empty((len(capacities), len(lengths)), np.int64)
    free = np.empty(spaces.shape)
    total, norm = np.empty(len(lengths)), np.empty(len(lengths))
    opened = 0
    for document in np.argsort(-shares.max(axis=1), kind="stable").tolist():
        needed, share = lengths[document], shares[document]
        fits = spaces[0, :opened] >= needed[0]
        for space, need in zip(spaces[1:, :opened], needed[1:].tolist(), strict=True):
            fits &= space >= need
        likeness = share @ free[:, :opened]
        likeness /= norm[:opened]
        likeness -= ALIKE * total[:opened]
        likeness[~fits] = -np.inf
        row = int(likeness.argmax()) if opened else 0
        if not opened or not fits[row]:
            row = opened
            spaces[:, row] = capacities
            free[:, row] = 1
            opened += 1
        rows[document] = row
        spaces[:, row] -= needed
        free[:, row] -= share
        total[row] = free[:, row].sum()
        norm[row] = max(float(np.hypot.reduce(free[:, row])), LEAST)
    return rows


def _numbered_by_first(rows: Indices) -> Indices:
    count = int(rows.max(initial=-1)) + 1
    firsts = np.full(count, len(rows))
    np.minimum.at(firsts, rows, np.arange(len(rows)))
    numbers = np.empty(count, np.int64)
    numbers[np.argsort(firsts)] = np.arange(count)
    return numbers[rows]
