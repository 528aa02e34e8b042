"""Iterators whose order is known tell what their items will need, and only as long as they go on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest
from support.native_forks import holds_in_a_fork

import resumable as rs
from resumable.core.block import Indices
from resumable.core.foreseen import PartUses, foreseeing
from resumable.core.indexed import Indexed
from resumable.core.lookup import LookedUp
from resumable.core.weak_sets import members

MOST = 1 << 12


@dataclass(frozen=True, eq=False, repr=False)
class Needing(LookedUp[int]):
    """Numbers that each need a byte of a file.

    Attributes:
      asked: how many numbers they were that it was asked of.
    """

    count: int
    asked: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        return self.count

    def indexed(self, epoch: int = 0) -> Indexed[int]:
        return Indexed(lambda indices: indices.tolist(), every_epoch=True, needs=self._needs)

    def _needs(self, indices: Indices, at: Indices) -> Iterator[PartUses]:
        self.asked.append(len(indices))
        nothing = np.zeros_like(indices)
        yield PartUses(None, ["a file"], nothing, nothing, nothing + 1, at)


@pytest.fixture(autouse=True)
def nothing_else_is_foreseen() -> None:
    foreseeing.clear()


GROUPED: dict[str, Callable[[rs.Pipeline[int]], rs.Pipeline[Any]]] = {
    "shard": lambda numbers: numbers.batch(256).shard(1, 2),
    "shuffle": lambda numbers: numbers.batch(256).shuffle(0),
    "twice": lambda numbers: numbers.batch(16).batch(16).skip(3),
    "window": lambda numbers: numbers.window(256, shift=1).shard(0, 2),
    "unbatch": lambda numbers: numbers.batch(256).unbatch(size=256).shuffle(0),
    "map": lambda numbers: numbers.batch(256).map(len).shard(0, 2),
    "zip": lambda numbers: rs.zip(numbers.batch(256), numbers.batch(64)).shard(0, 2),
    "repeat": lambda numbers: numbers.shuffle(0).batch(256).repeat(2).shard(0, 2),
    "mix": lambda numbers: rs.mix(numbers.batch(256), numbers.batch(64)),
    "concatenate": lambda numbers: rs.concatenate(numbers.batch(256), numbers).shard(0, 2),
    "cache": lambda numbers: numbers.batch(256).cache().shard(0, 2),
}


@pytest.mark.parametrize("name", GROUPED)
def test_of_groups_no_more_are_foreseen_than_of_their_items(name: str) -> None:
    numbers = Needing(10**6)
    root = GROUPED[name](rs.Pipeline(numbers)).stage.start()
    (iterator,) = members(foreseeing)
    found = list(iterator.foreseen(0, iterator.horizon(MOST)))
    assert MOST // 8 <= sum(numbers.asked) <= 2 * MOST
    assert min(uses.at.min() for uses in found) == 0
    root.close()
    assert not members(foreseeing)


BEHIND_EPOCHS: dict[str, Callable[[rs.Pipeline[int]], rs.Pipeline[Any]]] = {
    "shard": lambda numbers: numbers.shard(0, 2),
    "shuffle": lambda numbers: numbers.shuffle(0),
    "skip": lambda numbers: numbers.skip(2),
    "exclude": lambda numbers: numbers.exclude([1]),
    "mix": lambda numbers: rs.mix(numbers, numbers.skip(3)),
}


@pytest.mark.parametrize("name", BEHIND_EPOCHS)
def test_the_next_epoch_is_foreseen_where_the_pipeline_changes_within_this_one(name: str) -> None:
    old, new = rs.Pipeline(Needing(5)), rs.Pipeline(Needing(7))
    pipeline = BEHIND_EPOCHS[name](rs.by_epoch({0: old, 3: new}).repeat(6))
    with pipeline.start() as iterator:
        (foresees,) = members(foreseeing)
        length = foresees.left
        places = [int(at) for uses in foresees.foreseen(0, 3 * length) for at in uses.at]
        assert sorted(places) == list(range(2 * length))
        assert iterator.skip(2 * length) == length


def test_a_group_of_very_many_is_foreseen_alone() -> None:
    numbers = Needing(10**5)
    iterator: Any = rs.Pipeline(numbers).batch(10**9).skip(0).stage.start()
    assert iterator.horizon(MOST) == 1
    (uses,) = iterator.foreseen(0, 1)
    assert numbers.asked == [10**5]
    assert not uses.at.any()


def test_another_thread_that_asks_at_once_finds_an_iterator_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[tuple[int, int, int]] = []

    class Asks(WeakSet[Any]):
        def add(self, item: Any) -> None:
            found.append((item.position, item.left, len(list(item.foreseen(0, item.horizon(9))))))

    monkeypatch.setattr("resumable.core.lookup.foreseeing", Asks())
    Needing(5).start()
    assert found == [(0, 5, 2)], "two epochs"


def test_a_closed_iterator_needs_nothing() -> None:
    iterator = iter(rs.Pipeline(Needing(9)).shuffle(0).batch(2))
    next(iterator)
    assert len(members(foreseeing)) == 1
    iterator.close()
    assert not members(foreseeing)


def test_a_repeat_is_foreseen_as_one_iterator_wherever_it_is() -> None:
    iterator = iter(rs.Pipeline(Needing(5)).repeat(3))
    for place in range(15):
        assert next(iterator) == place % 5
        (foresees,) = members(foreseeing)
        assert foresees.position == place + 1
        assert iterator.epoch == place // 5
        assert members(foreseeing) == [foresees]
    iterator.close()
    assert not members(foreseeing)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_needs_nothing_for_its_parent() -> None:
    iterator = iter(rs.Pipeline(Needing(9)))
    assert holds_in_a_fork(lambda: not members(foreseeing))
    assert len(members(foreseeing)) == 1
    iterator.close()
