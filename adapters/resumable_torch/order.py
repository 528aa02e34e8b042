"""The order in which a sampler goes through a data set: an indexed pipeline of indices."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from itertools import count
from typing import Any

import resumable as rs
from resumable.arguments import check_bool, check_int
from resumable.block import block_items
from resumable.stages.shard import Shard

from .cursor import Cursor

__all__ = ["as_order", "positions_from", "pulled"]

Source = int | Sized | rs.Pipeline[int]


def as_order(source: Source, shuffle: bool | None, seed: int) -> rs.Pipeline[int]:
    """The indices of ``source``, a length or something that has one, or itself if it is an order.

    Raises:
      InvalidType: if it is neither, or a pipeline that is no order.
      InvalidArgument: if a pipeline is to be shuffled.
    """
    if isinstance(source, rs.Pipeline):
        if not source.random_access:
            raise rs.InvalidType(f"a pipeline as order must have random access, got {source!r}")
        if shuffle is not None:
            raise rs.InvalidArgument(
                f"shuffle must not be given with a pipeline, got {shuffle!r}; use its shuffle(seed)"
            )
        return source
    order = rs.range(
        len(source) if isinstance(source, Sized) else check_int("source", source, minimum=0)
    )
    return order.shuffle(seed) if check_bool("shuffle", bool(shuffle)) else order


def positions_from(cursor: Cursor) -> Iterator[int]:
    """The positions, in the whole run, of the items of a pass from where it began."""
    stage, origin = cursor.pipeline.stage, cursor.origin
    if isinstance(stage, Shard):
        length = stage.upstream.length
        first, stride = origin["pipeline"]["position"] + stage.index, stage.count
    else:
        length = stage.length
        first, stride = origin["step"], 1
    before = cursor.epoch * int(length) if cursor.epoch and length is not None else 0
    return count(before + first, stride)


def pulled(iterator: rs.PipelineIterator[Any], length: int) -> list[Any]:
    """Up to ``length`` items as a list."""
    return list(block_items(iterator.pull(length)))
