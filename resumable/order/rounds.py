"""The turns of partitions with different numbers of items handed out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import numpy as np

from ..core.block import Indices

NO_TURNS: Final[Indices] = np.empty(0, np.int64)


def turns_in_rounds(positions: Sequence[int], ended: Sequence[bool], count: int) -> Indices:
    """The partition of each of the next ``count`` turns; none if all have ended.

    A turn belongs to the partition with the fewest items handed out; among several, to the first.
    So from the start on partitions take turns in rounds. Partitions that are behind, as after a run
    in which other ranks owned them, catch up first.

    Args:
      positions: number of items handed out by each partition.
      ended: whether each partition has ended; an ended partition gets no turn.
      count: number of turns.

    Returns:
      places in ``positions``, shape (count,), or (0,).

    >>> turns_in_rounds([3, 2, 2], [False, False, False], 6).tolist()
    [1, 2, 0, 1, 2, 0]
    """
    going = [place for place, over in enumerate(ended) if not over]
    if not going:
        return NO_TURNS
    rest = [positions[place] for place in going]
    first = rest.index(min(rest))
    if rest == [rest[first] + 1] * first + [rest[first]] * (len(rest) - first):
        # No partition is behind: the round continues with the first partition still without a turn.
        taking = np.array(going)
        return taking[np.arange(first, first + count) % len(going)]
    # Partitions by the round of their next turn.
    entering = sorted(going, key=positions.__getitem__)
    waiting = [(at, list(group)) for at, group in groupby(entering, positions.__getitem__)]
    turns: list[Indices] = []
    missing, taking = count, NO_TURNS
    for (at, group), (stop, _) in zip(waiting, [*waiting[1:], (None, [])], strict=True):
        taking = np.union1d(taking, group)
        rounds = -(-missing // len(taking))
        if stop is not None:
            rounds = min(rounds, stop - at)
        turns.append(np.tile(taking, rounds)[:missing])
        missing -= len(turns[-1])
        if not missing:
            break
    return np.concatenate(turns)
