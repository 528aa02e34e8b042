"""Slide a window over consecutive items."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from ..core import (
    ITEMS,
    PARTS,
    Block,
    Dependence,
    Grouped,
    IdentityFields,
    ItemByItem,
    Items,
    SavedState,
    StageIterator,
    Transform,
    TransformIterator,
    block_length,
    check_int,
    computed_once,
)
from ..core.arguments import check_bool, check_field
from ..core.block import concatenate, slice_block, take_rows
from ..core.layout import Layout, stacked_layout
from ..core.reach import Reach
from ..core.stage_iterator import DeferredState, state_deferrer
from ..state.value import LARGEST_COUNT, State, unpack, unpack_count


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Window(Transform[Any]):
    """Windows of ``size`` consecutive items, each begun ``shift`` items after the previous window.

    A window is made as `Batch` makes a batch: arrays and numbers are stacked along a new first
    axis, dicts and tuples field by field, and columns stay columns. Over `from_arrays` a window is
    a copied slice of shape (size, ...) in the array's dtype, so tokens in a `numpy.memmap` cost no
    Python work each. Items that are not stacked, such as strings, are the same objects in each
    window.

    As in tf.data a window begins at every multiple of ``shift`` among the items. Windows that reach
    beyond the last item are shorter; there may be several if ``shift`` is less than ``size``.
    ``drop_last=True`` leaves short windows out, so windows can be batched.

    State: O(1), upstream's at the start of the next window. Another ``size`` and ``shift`` may be
    chosen on resume, unless a later stage counts or shuffles the windows. A resume re-reads the
    items, fewer than ``size``, that the next window shares with the previous window. Random access
    is kept, and a later shuffle reads nothing again. The iterator holds the items of one window,
    and upstream's position at up to ``size / shift + 1`` starts of windows.

    Args:
      upstream: stage whose items are grouped.
      size: items in a window, at least 1.
      shift: items from the start of a window to the start of the next, at least 1; by default
        ``size``. If ``shift`` is more than ``size``, the items between two windows are passed over.
      drop_last: leave out windows shorter than ``size``.

    Raises:
      InvalidArgument: if ``size`` or ``shift`` is less than 1.
      InvalidType: if an argument has the wrong type.
      MalformedItem: while iterating, if items of one window cannot be stacked.

    >>> list(rs.range(5).window(3, shift=2))
    [array([0, 1, 2]), array([2, 3, 4]), array([4])]
    """

    identity: ClassVar[IdentityFields] = dict.fromkeys(("size", "shift", "drop_last"), ITEMS)
    depends_on: ClassVar[Dependence] = PARTS

    size: int
    shift: int | None = None
    drop_last: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "size", check_int, minimum=1)
        check_field(self, "shift", check_int, optional=True, minimum=1)
        check_bool("drop_last", self.drop_last)

    @property
    def step(self) -> int:
        """Items from the start of a window to the start of the next."""
        return self.size if self.shift is None else self.shift

    @computed_once
    def block_layout(self) -> Layout:
        return stacked_layout(self.upstream.block_layout)

    @property
    def state_cost(self) -> SavedState:
        if self.step >= self.size:
            return SavedState("what to pass over", resumes_before=True)
        again = self.size - self.step
        return SavedState(f"nothing; a resume reads up to {again} items again", resumes_before=True)

    def relation(self, epoch: int) -> Grouped:
        batch = self.upstream.block_layout.batch
        return Grouped(
            self,
            epoch,
            size=self.size,
            make=batch,
            shift=self.step,
            drop_last=self.drop_last,
            is_slice=True,
        )

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return _WindowIterator(self, epoch)


class _WindowIterator(ItemByItem[Any], TransformIterator[Any]):
    _stage: Window

    def __init__(self, stage: Window, epoch: int) -> None:
        super().__init__(stage, epoch)
        # The items that the next window shares with the last window.
        self._shared: Block = []
        # Upstream's state at the start of each window that begins among the shared items.
        self._starts: deque[DeferredState] = deque()
        self._note_start = state_deferrer(self._upstream)
        # The number of items before the start of the next window.
        self._gap = 0

    def items(self) -> Items[Any]:
        # A batch begins where the previous batch ended, so upstream's own state is the start of the
        # next batch.
        follows = self._stage.step == self._stage.size and not self._starts and not self._gap
        if not follows:
            return Items(self._windows())
        size, blocks = self._stage.size, self._upstream.blocks(self._stage.size)
        if self._stage.drop_last:
            blocks = (block for block in blocks if block_length(block) == size)
        return Items(self._stage.upstream.block_layout.batches(blocks))

    def _windows(self) -> Iterator[Any]:
        stage, batch = self._stage, self._stage.upstream.block_layout.batch
        while length := block_length(block := self._read()):
            if stage.drop_last and length < stage.size:
                break
            self._leave(block, length)
            yield batch(block)

    def skip(self, count: int) -> int:
        if not count:
            return 0
        ahead = (count - 1) * self._stage.step
        items = self._advance_over(ahead)
        if items == ahead:
            block = self._read()
            items += (length := block_length(block))
            if length and self._stage.relation(0).groups_in(items) >= count:
                self._leave(block, length)
        return min(self._stage.relation(0).groups_in(items), count)

    def _read(self) -> Block:
        """The items of the next window; the position moves only over a gap before the window."""
        size, step = self._stage.size, self._stage.step
        if self._gap:
            self._gap -= self._upstream.skip(self._gap)
        parts, length = [self._shared], block_length(self._shared)
        while length < size:
            if len(self._starts) * step == length:
                self._starts.append(self._note_start())
            wanted = min(len(self._starts) * step, size) - length
            part = self._upstream.pull(wanted)
            parts.append(part)
            length += (read := block_length(part))
            if read < wanted:
                break
        return concatenate(parts)

    def _leave(self, block: Block, length: int) -> None:
        """Move on from the window of ``block`` to the next one."""
        step = self._stage.step
        self._gap = max(step - self._stage.size, 0)
        # Copied, since the user may write into the window.
        if step >= length:
            self._shared = []
        elif isinstance(block, np.ndarray):
            self._shared = block[step:].copy()
        else:
            self._shared = take_rows(block, np.arange(step, length))
        self._starts.popleft()

    def _advance_over(self, count: int) -> int:
        """Pass over up to ``count`` items from the next window's start on; returns how many."""
        shared = block_length(self._shared)
        if count < shared:
            self._shared = slice_block(self._shared, count, shared)
            for _ in range(count // self._stage.step):
                self._starts.popleft()
            return count
        self._shared = []
        self._starts.clear()
        self._gap -= self._upstream.skip(self._gap)
        return shared + self._upstream.skip(count - shared)

    @property
    def _items_delivered(self) -> int | None:
        start = self._upstream._items_delivered
        return None if start is None else self._stage.relation(0).outputs_after(start + self._gap)

    def _reached(self) -> Iterator[Reach]:
        stage = self._stage
        self._upstream.skip(max(stage.size - stage.step, 0))
        return self._upstream._reached()

    def get_state(self) -> State:
        start = self._starts[0]() if self._starts else self._upstream.get_state()
        return {"gap": self._gap, "upstream": start}

    def set_state(self, state: State) -> None:
        gap, upstream = unpack(self._stage, state, "gap", "upstream")
        # The gap by the shift at the save, which may be any number.
        self._gap = unpack_count(self._stage, "gap", gap, LARGEST_COUNT)
        self._upstream.set_state(upstream)
