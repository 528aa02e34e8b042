"""Split batches into their items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, final

import numpy as np

from ..core import (
    Aligned,
    Block,
    Grouped,
    SavedState,
    Stage,
    StageIterator,
    block_items,
    block_length,
    computed_once,
)
from ..core.block import USUAL, concatenate, copy_block, slice_block
from ..core.expansion import OUTPUTS, ExpandingIterator
from ..core.fan_out import FansOut, check_fan_out
from ..core.layout import Layout, rows_layout
from ..core.relation import kind_of
from ..core.replay_point import END, check_offset, skip_outputs
from ..core.stage import InputShadows
from ..errors import MalformedItem
from ..shadows.traced import Each, Traced, row_origins

ALIKE_IN_ANY_ROWS: Final = frozenset(
    map(np.dtype, np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?")
)
"""Dtypes of rows that batch to the same dtype, whatever the rows: numbers in native byte order."""


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Unbatch(FansOut[Any]):
    """The items of every batch: rows of an array, tuples or dicts of rows, entries of a list.

    ``unbatch`` undoes ``batch``, and splits the batches of a source.

    State: O(1), upstream's state before the current batch, and an offset. A resume reads the
    current batch again.

    With ``size``, random access is kept: item i is a row of batch i // size. The state is the same
    with and without ``size``.

    Args:
      upstream: stage of batches.
      size: number of items in each batch, also the last, at least 1; None if the number varies or
        is unknown.

    Raises:
      InvalidArgument: if ``size`` is less than 1, or makes more than 2**62 items.
      InvalidType: if ``size`` is not an integer.
      MalformedItem: while iterating, if an item is not a batch, its columns differ in length, or it
        has more or fewer than ``size`` items.

    >>> list(rs.range(5).batch(2).unbatch())
    [0, 1, 2, 3, 4]
    >>> len(rs.range(6).batch(2).unbatch(size=2).shuffle(seed=0))
    6
    """

    state_cost = SavedState(
        "an offset; a resume reads the batch it is inside again", resumes_before=True
    )

    size: int | None = None

    @computed_once
    def block_layout(self) -> Layout:
        return rows_layout(self.upstream.block_layout)

    @property
    def _in_rows(self) -> bool:
        return _rows_in_order(self.upstream)

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        in_order = self._in_rows
        if self.size is None or inputs.paired:
            return replace(self, upstream=Each(inputs.pairs[0], partial(_traced_rows, in_order)))
        rows = partial(row_origins, self.size, in_order=in_order)
        return replace(self, upstream=Each(inputs.alike[0], rows))

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        rows = _rows if self.size is None else lambda batch: _rows(self.checked(batch))
        return _UnbatchIterator(self, epoch, rows)

    def _expansion(self, size: int, epoch: int) -> Callable[[Any], Block]:
        return lambda batch: _block(self.checked(batch))

    def checked(self, batch: Any) -> Any:
        """``batch``, if it has ``size`` items."""
        if self.size is not None:
            check_fan_out(self.size, block_length(_block(batch)))
        return batch


class _UnbatchIterator(ExpandingIterator[Any]):
    """Cuts blocks out of the batches; columns are cut without making items."""

    _stage: Unbatch

    # While `blocks` runs: the current batch as a block. A batch within which no block ends is never
    # the current batch.
    _batch: Block | None = None

    def pull(self, count: int) -> Block:
        return next(self.blocks(count), []) if count else []

    def blocks(self, size: int) -> Iterator[Block]:
        point = self._point
        if point.rows is not None:
            self._batch = point.rows
        point.stop_walking()
        batches = point.upstream_items()
        if self._stage.size is not None:
            batches = map(self._stage.checked, batches)
        missing = 0
        while not missing:
            parts, missing = self._parts(batches, size)
            if parts:
                yield _joined(parts)

    def _parts(self, batches: Iterator[Any], size: int) -> tuple[list[Block], int]:
        """Parts of batches with ``size`` items in total, and how many are missing at the end."""
        parts, missing = list[Block](), size
        if self._batch is not None:
            missing = self._cut(parts, missing)
        while missing:
            if skipped := self._point.offset.end:
                batch = next(batches, END)
                block = END if batch is END else _block(batch)
            else:
                block, missing = _add_whole(batches, parts, missing)
            if block is END:
                self._point.end()
                break
            if skipped:
                check_offset(skipped, block_length(block), OUTPUTS, self._stage)
            self._batch = block
            self._point.enter()
            missing = self._cut(parts, missing)
        return parts, missing

    def _cut(self, parts: list[Block], missing: int) -> int:
        """Add the next items of the current batch; returns how many are still missing.

        Leaves the batch if items are missing after it.
        """
        batch: Block = self._batch
        usual = type(batch) in USUAL
        length = len(batch) if usual else block_length(batch)
        start = self._point.offset.end
        stop = start + missing
        if stop > length:
            stop = length
        if start < stop:
            parts.append(batch[start:stop] if usual else slice_block(batch, start, stop))
            missing -= stop - start
            self._point.offset.end = stop
        if missing:
            self._batch = None
            self._point.leave()
        return missing

    def _expansions(self) -> Iterator[Iterator[Any]]:
        if self._batch is not None:
            rows = block_items(self._batch)
            outputs = iter(rows)
            skip_outputs(outputs, self._point.number, OUTPUTS, self._stage)
            self._point.outputs, self._point.rows, self._batch = outputs, rows, None
        return super()._expansions()


def _add_whole(
    batches: Iterator[Any], parts: list[Block], missing: int
) -> tuple[Block | object, int]:
    """Add the next batches to ``parts``, while they have no more than ``missing`` items in total.

    Returns:
      the batch after the added batches, or END after the last batch and where no items are missing;
      and the number of missing items.
    """
    own: list[Any] = []  # the lists that came last, joined
    for batch in batches:
        if type(batch) is list:
            length = len(batch)
            if length > missing:
                return batch, missing
            if length and not own:
                parts.append(own)
            own += batch
        else:
            block = _block(batch)
            length = len(block) if type(block) in USUAL else block_length(block)
            if length > missing:
                return block, missing
            if length:
                parts.append(block.copy() if type(block) is list else block)
                own = []
        missing -= length
        if not missing:
            break
    return END, missing


def _joined(parts: list[Block]) -> Block:
    """One block of ``parts``, sharing no memory with a batch; lists in ``parts`` are unshared."""
    block = concatenate(parts)
    is_view = block is parts[0] and type(block) is not list
    return copy_block(block) if is_view else block


def _block(batch: Any) -> Block:
    """The items of ``batch``, as columns if the columns make the same batches later."""
    columns = _columns(batch)
    return _rows(batch) if columns is None else columns


def _columns(batch: Any) -> Block | None:
    """``batch`` as columns, if a later batch of columns equals a batch of items; None otherwise."""
    if type(batch) is np.ndarray:
        return batch if batch.ndim and batch.dtype in ALIKE_IN_ANY_ROWS else None
    if type(batch) is not dict and not isinstance(batch, tuple):
        return None
    columns = list(map(_columns, _fields(batch)))
    if not columns or any(column is None for column in columns):
        return None
    return _of_one_length(batch, columns)


def _rows(batch: Any) -> list[Any]:
    if type(batch) is list:
        return batch
    if isinstance(batch, list) or (isinstance(batch, np.ndarray) and batch.ndim):
        return block_items(batch)
    if isinstance(batch, (Mapping, tuple)) and batch:
        return block_items(_of_one_length(batch, list(map(_rows, _fields(batch)))))
    raise MalformedItem(
        f"unbatch needs batches (arrays, lists, tuples, dicts), got {type(batch).__name__}"
    )


def _traced_rows(in_order: bool, batch: Traced[Any]) -> list[Traced[Any]]:
    rows = _rows(batch.item)
    return list(map(Traced, rows, row_origins(len(rows), batch.origin, in_order=in_order)))


def _rows_in_order(stage: Stage[Any]) -> bool:
    """Whether the rows of ``stage``'s items are the items that went in, in the same order.

    A function that maps or collates a batch may have reordered its rows.
    """
    if kind_of(stage) in (Grouped, Aligned):
        return getattr(stage, "collate", None) in (None, list, tuple)
    return stage.unchanged and all(map(_rows_in_order, stage.inputs))


def _fields(batch: Any) -> Iterable[Any]:
    return batch.values() if isinstance(batch, Mapping) else batch


def _of_one_length(batch: Any, columns: Sequence[Block]) -> Block:
    """``columns``, checked to have one length, as a dict or tuple like ``batch``."""
    lengths = set(map(block_length, columns))
    if len(lengths) > 1:
        raise MalformedItem(f"columns of a batch must have one length, got {sorted(lengths)}")
    if isinstance(batch, Mapping):
        return dict(zip(batch, columns, strict=True))
    return getattr(type(batch), "_make", tuple)(columns)
