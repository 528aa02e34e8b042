"""Batches of another size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

import numpy as np

from ..core.arguments import check_bool, check_int
from ..core.block import Block, as_batch, block_length, is_masked
from ..core.derived import derived
from ..core.stage import ITEMS, RANK, Reliance
from ..core.stage_iterator import StageIterator
from ..core.transform import PassThroughIterator, Transform
from ..errors import MalformedItem
from ..groups.motion import GroupIterator
from .unbatch import rows_of


@final
@dataclass(frozen=True, eq=False, repr=False)
class Rebatch(Transform[Any]):
    """Batches of ``batch_size`` rows, out of batches of any sizes.

    What comes is what ``unbatch().batch(batch_size)`` gives, for less work: batches that are arrays, or dicts
    or tuples of arrays, are cut and joined as such, and no Python object is made for a row. A batch that
    lies within one of upstream's is a view of it.

    State: O(1), upstream's from before the batch it is inside, the number of that batch, and an
    offset. A resume reads that batch again.

    Args:
      upstream: stage whose items are batches: arrays, lists, or dicts or tuples of these.
      batch_size: rows of a batch, at least 1.
      drop_last: leave out a final batch shorter than ``batch_size``.

    Raises:
      InvalidArgument: if ``batch_size`` is less than 1.
      InvalidType: if an argument has the wrong type.
      MalformedItem: while iterating, if an item is not a batch, its columns differ in length, or
        rows cannot be stacked.

    >>> list(rs.range(7).batch(3).rebatch(2))
    [array([0, 1]), array([2, 3]), array([4, 5]), array([6])]
    """

    identity: ClassVar[Mapping[str, Reliance]] = {"batch_size": ITEMS, "drop_last": ITEMS}
    relies_on: ClassVar[Reliance] = ITEMS | RANK
    state_cost = "an offset; a resume reads the batch it is inside again"

    _: KW_ONLY
    batch_size: int
    drop_last: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "batch_size", check_int("batch_size", self.batch_size, minimum=1))
        check_bool("drop_last", self.drop_last)

    @derived
    def length(self) -> int | float | None:
        return math.inf if self.upstream.length == math.inf else None

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return _RebatchIterator(self, epoch)


class _RebatchIterator(PassThroughIterator[Any]):
    """Its state is that of the motion through the rows."""

    _stage: Rebatch

    def __init__(self, stage: Rebatch, epoch: int) -> None:
        self._stage = stage
        self._upstream = GroupIterator(stage, stage.upstream.start(epoch), _rows_as_block)

    def pull(self, count: int) -> Block:
        size = self._stage.batch_size
        batches: list[Any] = []
        while len(batches) < count:
            block = self._upstream.pull(size)
            length = block_length(block)
            if length == size or (length and not self._stage.drop_last):
                batches.append(as_batch(block))
            if length < size:
                break
        return batches

    def skip(self, count: int) -> int:
        size = self._stage.batch_size
        batches, rest = divmod(self._upstream.skip(count * size), size)
        return batches + (rest > 0 and not self._stage.drop_last)


def _rows_as_block(batch: Any, number: int) -> Block:
    lengths = _lengths(batch)
    if lengths is None:
        return rows_of(batch)
    if len(set(lengths)) > 1:
        raise MalformedItem(f"columns of a batch must have one length, got {sorted(set(lengths))}")
    return batch


def _lengths(batch: Any) -> list[int] | None:
    """The lengths of all arrays of ``batch``; None if their rows have to be looked at one by one."""
    if (
        isinstance(batch, np.ndarray)
        and batch.ndim
        and batch.dtype != object
        and not is_masked(batch)
    ):
        return [len(batch)]
    fields = (
        batch.values() if isinstance(batch, dict) else batch if isinstance(batch, tuple) else ()
    )
    found: list[int] = []
    for field in fields:
        lengths = _lengths(field)
        if lengths is None:
            return None
        found += lengths
    return found or None
