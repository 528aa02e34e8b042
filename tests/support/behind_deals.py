"""Every stage of the catalogue behind a `shard`, and what ranks may do with their states there.

A *tail* is what stands behind the deal: it takes a pipeline of numbers. A *deal* makes that pipeline for a rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest
from support.facts import STAGE_FACTS, Step
from support.samples import is_no_third
from support.tiers import is_deep

import resumable as rs
from resumable.core import block_items, freeze, unpack

__all__ = ["CASES", "DEALS", "TAILS", "Deal", "Tail", "joined", "leaves", "shown"]

Tail: TypeAlias = Step
Deal: TypeAlias = Callable[[int, int], rs.Pipeline[Any]]

COUNT = 90


class Held(rs.Transform[Any]):
    """A stage of a user as `docs/writing/stage.md` shows it: the difference to the item before."""

    def start(self, epoch: int = 0) -> rs.StageIterator[Any]:
        return _HeldIterator(self, epoch)


class _HeldIterator(rs.TransformIterator[Any]):
    last: list[Any] = []  # noqa: RUF012  # it is never changed in place

    def pull(self, count: int) -> list[Any]:
        items = list(block_items(self._upstream.pull(count)))
        before = [*self.last, *items] if self.last else [0, *items]
        self.last = items[-1:] or self.last
        return [(item, last) for item, last in zip(items, before, strict=False)]

    def get_state(self) -> Any:
        return {"last": freeze(self.last), "upstream": self._upstream.get_state()}

    def set_state(self, state: Any) -> None:
        self.last, upstream = unpack(self._stage, state, "last", "upstream")
        self._upstream.set_state(upstream)


TAILS: dict[str, Tail] = {
    "nothing": lambda numbers: numbers,
    **STAGE_FACTS.merged(lambda facts: facts.behind_deals),
    "a stage of a user": lambda numbers: numbers.apply(Held),
    "a stage of a user, batch": lambda numbers: numbers.apply(Held).batch(2),
}


def sharded(rank: int, ranks: int) -> rs.Pipeline[int]:
    return rs.range(1, COUNT).shuffle(2).shard(rank, ranks, uneven="keep")


def sharded_stream(rank: int, ranks: int) -> rs.Pipeline[int]:
    return rs.range(1, COUNT).shuffle(2).filter(is_no_third).shard(rank, ranks, uneven="keep")


def partitioned(rank: int, ranks: int) -> rs.Pipeline[int]:
    numbers = rs.range(1, COUNT).shuffle(2).partition(6, lambda part: part.filter(is_no_third))
    return numbers.shard(rank, ranks)


DEALS: dict[str, Deal] = {
    "shard": sharded,
    "shard of a stream": sharded_stream,
    "partition": partitioned,
}


# In the quick tier each tail stands behind one of the deals.
CASES = [
    pytest.param(deal, tail, id=f"{deal}-{tail}")
    for number, tail in enumerate(TAILS)
    for place, deal in enumerate(DEALS)
    if is_deep() or number % len(DEALS) == place
]


def joined(states: list[Any]) -> list[Any]:
    """The state of all ranks, if they can be joined."""
    try:
        return [rs.merge_states(states)]
    except rs.StateMismatch:
        return []


def leaves(items: Iterable[Any]) -> Counter[Any]:
    """The numbers in all ``items``, whatever they are in."""
    return Counter(leaf for item in items for leaf in _leaves(item))


def _leaves(item: Any) -> Iterator[Any]:
    if isinstance(item, np.ndarray):
        yield from item.ravel().tolist()
    elif isinstance(item, dict):
        for value in item.values():
            yield from _leaves(value)
    elif isinstance(item, (list, tuple)):
        for value in item:
            yield from _leaves(value)
    else:
        yield item


def shown(items: Iterable[Any]) -> list[str]:
    """Each of ``items`` with all that it holds."""
    return [repr(item) for item in items]
