"""The order in which a sampler visits a data set: an indexed pipeline of indices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from dataclasses import replace
from itertools import count
from typing import Any, Final

from torch.utils.data import IterableDataset, Sampler

import resumable as rs
from resumable.core.arguments import check_bool, check_int
from resumable.core.block import block_items
from resumable.core.epochs import in_epoch, of_each_epoch
from resumable.core.graph import walk
from resumable.errors import shorten
from resumable.stages.shard import Shard

from .cursor import Cursor
from .data_identity import rows_of
from .torch_samplers import is_torch_sampler, order_of_sampler

__all__ = [
    "Source",
    "as_order",
    "check_makes_order",
    "check_positions",
    "positions_from",
    "refuse_given",
    "refuse_indices",
    "take_list",
]

Source = int | Sized | rs.Pipeline[int]

USE_SHUFFLE: Final = "; use its shuffle(seed)"
"""Advice for an argument given together with a pipeline."""


def as_order(
    source: Source, shuffle: bool | None, seed: int | None, identity: str | int | None = None
) -> rs.Pipeline[int]:
    """The indices of ``source``.

    Args:
      source: a length, an object with a length, a sampler of torch, or a pipeline of indices.
      shuffle: whether to shuffle; None for the sampler's own choice.
      seed: of the shuffle, 0 by default.
      identity: of the data set, as for `rows_of`.

    Raises:
      InvalidType: for any other ``source``, a pipeline without random access, a sampler or a list
        of indices of unknown order, or if ``shuffle`` is neither True nor False.
      InvalidArgument: if ``shuffle`` or ``seed`` is given with a pipeline, or a framework passed a
        sampler.
    """
    if isinstance(source, rs.Pipeline):
        if not source.random_access:
            raise rs.InvalidType(f"a pipeline as order must have random access, got {source!r}")
        refuse_given("a pipeline", USE_SHUFFLE, shuffle=shuffle, seed=seed)
        return source
    is_shuffled = False
    if isinstance(source, Sampler):
        order, is_shuffled = order_of_sampler(source)
    elif isinstance(source, Sized):
        order = rows_of(source, identity)
    else:
        order = rs.range(check_int("source", source, minimum=0))
    if not (is_shuffled if shuffle is None else check_bool("shuffle", shuffle)):
        return order
    return order.shuffle(0 if seed is None else seed)


def refuse_indices(source: object) -> None:
    """Refuse a range or a list of indices, since only its length would count.

    Raises:
      InvalidType: if ``source`` has other indices than a whole data set.
    """
    given = list(source) if isinstance(source, (range, list, tuple)) else []
    if all(type(index) is int for index in given) and given != list(range(len(given))):
        raise rs.InvalidType(
            f"source must be a data set, of which only the length counts, got {shorten(source)}; pass "
            "rs.from_sequence(indices), and shuffle(seed) behind it"
        )


def refuse_given(other: str, advice: str = "", **arguments: object) -> None:
    """Refuse any of ``arguments`` except None, since ``other`` makes the order.

    Raises:
      InvalidArgument: with the first argument given.
    """
    for name, value in arguments.items():
        if value is not None:
            raise rs.InvalidArgument(
                f"{name} must not be given with {other}, got {value!r}{advice}"
            )


def check_makes_order(
    dataset: Any, sampler: Any, batch_sampler: Any, seed: int | None, with_position: bool
) -> None:
    """Refuse ``seed`` and ``with_position`` of a loader if something else makes the order.

    Raises:
      InvalidArgument: with the argument.
    """
    makes_order = sampler is None or isinstance(sampler, rs.Pipeline) or is_torch_sampler(sampler)
    has_sampler = batch_sampler is not None or not makes_order
    if isinstance(dataset, IterableDataset):
        if with_position:
            raise rs.InvalidArgument(
                "with_position needs a map-style data set, got True with an iterable one; "
                "random_map gives each item of a pipeline a generator"
            )
    elif has_sampler and with_position:
        raise rs.InvalidArgument(
            "with_position must be given to the sampler where there is one, got True"
        )
    elif has_sampler and seed is not None:
        raise rs.InvalidArgument(
            f"seed must be given to the sampler, which has its own, got {seed!r}"
        )
    if isinstance(dataset if sampler is None else sampler, (rs.Pipeline, IterableDataset)):
        refuse_given("a pipeline", USE_SHUFFLE, seed=seed)


def positions_from(cursor: Cursor) -> Iterator[int]:
    """The positions in the whole run of an epoch's items, from where the epoch began.

    An item that fills up a last round has the position of the repeated item.
    """
    stage, start = in_epoch(cursor.pipeline.stage, cursor.epoch), cursor.states.origin
    before = _before(cursor)
    if not isinstance(stage, Shard):
        return count(before + start["step"])
    length, base = stage.upstream.length, start["pipeline"]["position"]
    if length is None or length == math.inf:
        return count(before + base + stage.index, stage.count)
    places = rs.Pipeline(replace(stage, upstream=rs.range(base, int(length)).stage))
    return (before + place for place in places)


def _before(cursor: Cursor) -> int:
    """Number of items of all ranks in the previous epochs.

    Raises:
      InvalidArgument: if a previous epoch is endless.
    """
    before = 0
    for (first, stop), stage in of_each_epoch(cursor.pipeline.stage):
        epochs = int(min(stop, cursor.epoch)) - first
        length = (stage.upstream if isinstance(stage, Shard) else stage).length
        if epochs > 0 and length == math.inf:
            raise rs.InvalidArgument(
                "with_position needs an order that ends, to count over the epochs before, got epoch "
                f"{cursor.epoch} of {cursor.pipeline!r}; leave out repeat(), since each loop is an epoch"
            )
        if epochs > 0 and length is not None:
            before += epochs * int(length)
    return before


def check_positions(order: rs.Pipeline[int]) -> None:
    """Refuse an order with the same positions for samples of two ranks.

    Raises:
      InvalidArgument: if a stage comes after ``shard``.
    """
    last = [stage for _, stage in of_each_epoch(order.stage)]
    for stage, path in walk(order.stage):
        if isinstance(stage, Shard) and all(stage is not one for one in last):
            raise rs.InvalidArgument(
                f"with_position needs shard as the last stage of the order, got {stage} at {path}"
            )


def take_list(iterator: rs.PipelineIterator[Any], count: int) -> list[Any]:
    """Take up to ``count`` items, as a list."""
    return list(block_items(iterator.pull_as_moved(count)))
