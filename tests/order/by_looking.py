"""Turns of a mix as they are published, walked through one round after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from resumable.order.random_bits import derive, random_bits


class Turn(NamedTuple):
    """Whose turn it is, for which of its items, in which round or section of which part."""

    upstream: int
    item: int
    unit: int
    part: int = 0


def spread_by_looking(parts: list[int]) -> list[int]:
    """The upstream of each turn of a round: by the times they are due at."""
    times = [
        ((rank + 0.5) / part, upstream)
        for upstream, part in enumerate(parts)
        for rank in range(part)
    ]
    return [upstream for _, upstream in sorted(times)]


def due_by_looking(parts: tuple[int, ...], turns: int) -> list[int]:
    """How many items of each upstream the first ``turns`` of a round hold."""
    times = [
        (Fraction(2 * rank + 1, 2 * part), upstream)
        for upstream, part in enumerate(parts)
        for rank in range(part)
    ]
    first = Counter(upstream for _, upstream in sorted(times)[:turns])
    return [first[upstream] for upstream in range(len(parts))]


def turns_by_looking(
    parts: tuple[int, ...],
    section: int | None,
    seed: int | None,
    epoch: int | None = None,
    keeps: Callable[[int], bool] = lambda unit: False,
    bits: int = 64,
) -> Iterator[Turn]:
    """All turns, one after the other.

    Args:
      parts: turns of each upstream in a round.
      section: turns after which a long round is cut; None for a short one.
      seed: None for turns that are spread evenly.
      epoch: None for the order of the seed alone.
      keeps: whether a round or section has that order in every epoch.
      bits: how many bits of the random keys count.
    """
    given: Counter[int] = Counter()
    units = count()
    while True:
        for start in range(0, sum(parts), section or sum(parts)):
            share = list(parts)
            if section is not None:
                stop = min(start + section, sum(parts))
                before, after = due_by_looking(parts, start), due_by_looking(parts, stop)
                share = [late - early for early, late in zip(before, after, strict=True)]
            upstreams = spread_by_looking(share)
            unit = next(units)
            if seed is not None:
                alone = epoch is None or keeps(unit)
                key = derive(seed) if alone else derive(seed, epoch or 0)
                keys = random_bits(derive(key, unit), np.arange(len(upstreams)))
                order = np.argsort(keys >> np.uint64(64 - bits), kind="stable").tolist()
                upstreams = [upstreams[place] for place in order]
            for upstream in upstreams:
                yield Turn(upstream, given[upstream], unit)
                given[upstream] += 1


def changing_by_looking(
    weights: dict[int, tuple[int, ...]],
    longest: int,
    section: int,
    seed: int | None,
    epoch: int | None = None,
    kept: frozenset[tuple[int, int]] = frozenset(),
) -> Iterator[Turn]:
    """All turns where weights change; a part, and then a unit, number what is ``kept``."""
    given: Counter[int] = Counter()
    firsts = sorted(weights)
    for part, first in enumerate(firsts):
        walked = turns_by_looking(
            weights[first],
            section if sum(weights[first]) > longest else None,
            derive(seed, first) if seed is not None and first else seed,
            epoch,
            lambda unit, part=part: (part, unit) in kept,  # type: ignore[misc]
        )
        length = firsts[part + 1] - first if part + 1 < len(firsts) else None
        for turn in islice(walked, length):
            yield Turn(turn.upstream, given[turn.upstream], turn.unit, part)
            given[turn.upstream] += 1
