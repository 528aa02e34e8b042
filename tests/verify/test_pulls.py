"""A stage of the user delivers the same, however many items it is asked for at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import resumable as rs
from resumable.core import Block, block_items
from resumable.verify.pulls import pulled


@dataclass(frozen=True, eq=False, repr=False)
class Remade(rs.Transform[Any]):
    """The items, as ``make`` does it with each block."""

    make: Any

    def start(self, epoch: int = 0) -> RemadeIterator:
        return RemadeIterator(self, epoch)


class RemadeIterator(rs.TransformIterator[Any]):
    _stage: Remade

    def pull(self, count: int) -> Block:
        block: Block = self._stage.make(list(block_items(self._upstream.pull(count))))
        return block


def unlike(make: Any, numbers: rs.Pipeline[Any] | None = None) -> Any:
    pipeline = (numbers or rs.range(30)).apply(lambda stage: Remade(stage, make)).batch(4)
    found = pulled(pipeline.stage, lambda count: None, numbers=(1,), most=20)
    assert found is None or found[0] == 1
    return found and found[1]


def test_items_and_their_types_are_compared() -> None:
    assert unlike(list) is None
    assert unlike(np.asarray) is None
    assert unlike(lambda items: np.asarray(items) if len(items) > 2 else items) is None
    wide = unlike(lambda items: [np.int64(item) for item in items] if len(items) > 2 else items)
    assert (wide.item, wide.expected, wide.got) == (3, "3", repr(np.int64(3)))
    swapped = unlike(lambda items: items[::-1])
    assert (swapped.item, swapped.expected, swapped.got) == (0, "0", "1")


def test_an_end_that_comes_early_is_told() -> None:
    found = unlike(lambda items: items if len(items) < 3 else items[:1], rs.range(9))
    assert found.got == "'nothing'"
