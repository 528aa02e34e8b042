"""Hand items in blocks to a framework that takes single items."""

# One call into Python costs TensorFlow more than an item usually does, so items cross in blocks. The graph
# takes the blocks apart again. Each item of a block has its number, so the position stays exact.
#
# A block holds back the first item until the last item is there. So blocks grow only while items
# come fast, and no block is longer than an eighth of the preceding fast items: a source that pauses
# now and then delays few items.

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

import numpy as np

from resumable.consumed import ConsumedStates
from resumable.core.block import Block, Indices, block_items, block_length, is_columns
from resumable.core.iterator import PipelineIterator

from .columns import Columns, size_of
from .failures import Failures

__all__ = ["NumberedBlocks"]

T = TypeVar("T")

BLOCK_SECONDS: Final = 0.002
"""About how long the items of a block may take together."""
BLOCK_BYTES: Final = 1 << 20
BLOCK_ITEMS: Final = 1 << 12
SLOW: Final = 5
"""A block that takes this many times `BLOCK_SECONDS` is a pause."""


class NumberedBlocks(Iterator[tuple[Any, Any]], Generic[T]):
    """The items of an epoch in blocks: item numbers, and columns in the structure of an item.

    If an item raises an exception, the earlier items come first. The next call tries the same item
    again.

    Args:
      states: the states of the epoch.
      columns: makes arrays of the items; None to hand out single items with numbers.
      failures: takes note of each exception.
      note_end: called with the number of the last item at the end of the epoch.
    """

    # An object and not a generator, so that the same item can be returned again after an error.

    def __init__(
        self,
        states: ConsumedStates[T],
        columns: Columns | None,
        failures: Failures,
        note_end: Callable[[int], None],
    ) -> None:
        self._states: ConsumedStates[Any] = states
        self._columns = columns
        self._failures = failures
        self._note_end = note_end
        self._iterator: PipelineIterator[Any] = states.produce(elsewhere=True)
        self._pace = _Pace()
        self._at_once = True
        self._singly: deque[Any] = deque()
        self._error: Exception | None = None

    def __next__(self) -> tuple[Any, Any]:
        began = perf_counter()
        if not self._singly:
            block = self._taken()
            count = block_length(block)
            if not count:
                self._note_end(self._iterator.step)
                raise StopIteration
            if self._columns is None:
                return self._numbers(1)[0], next(iter(block_items(block)))
            try:
                columns = self._columns.of(block)
            except Exception:
                self._singly.extend(block_items(block))
                self._pace.begin_anew()
            else:
                self._pace.note(count, perf_counter() - began, size_of(columns))
                return self._numbers(count), columns
        return self._next_single()

    def _next_single(self) -> tuple[Indices, Any]:
        """The next item of a block that could not be stacked."""
        assert self._columns is not None
        numbers = self._numbers(len(self._singly))[:1]
        try:
            columns = self._columns.of([self._singly[0]])
        except Exception as error:
            raise self._failures.noted(error, int(numbers[0])) from error
        self._singly.popleft()
        return numbers, columns

    def _numbers(self, count: int) -> Indices:
        """The numbers of the last ``count`` items taken."""
        last = self._iterator.step
        return np.arange(last - count + 1, last + 1, dtype=np.int64)

    def _taken(self) -> Block:
        """The next items; none at the end."""
        if self._error is not None:
            error, self._error = self._error, None
        else:
            try:
                block = self._pulled(self._pace.size)
                if self._error is None:
                    self._states.mark(self._iterator)
                return block
            except Exception as failed:
                error = failed
        raise self._failures.noted(error, self._iterator.step + 1) from error

    def _pulled(self, count: int) -> Block:
        if self._at_once:
            try:
                block = self._iterator.pull_as_moved(count)
            except Exception:
                # Singly, so that the items before the error can be handed out.
                self._at_once = False
                if count == 1:
                    raise
            else:
                # The results of a user's function are never columns, and may take any time.
                self._at_once = is_columns(block)
                return block
        items: list[Any] = []
        ends = perf_counter() + BLOCK_SECONDS
        try:
            for item in islice(self._iterator, count):
                items.append(item)
                if perf_counter() > ends:
                    break
        except Exception as error:
            if not items:
                raise
            self._error = error
        return items


class _Pace:
    """How many items the next block should have.

    Attributes:
      size: the number.
    """

    def __init__(self) -> None:
        self.size = 1
        self._fast = 0  # items without a pause

    def note(self, count: int, seconds: float, size: int) -> None:
        """Take note of the last block.

        Args:
          count: number of its items.
          seconds: the time for the block.
          size: the bytes of the block.
        """
        share = BLOCK_SECONDS / max(seconds, 1e-9)
        self._fast = self._fast + count if share * SLOW > 1 else self._fast // 2
        self.size = max(
            1,
            min(
                2 * self.size,
                int(count * min(share, BLOCK_ITEMS)),
                self._fast // 8,
                BLOCK_BYTES * count // max(size, 1),
                BLOCK_ITEMS,
            ),
        )

    def begin_anew(self) -> None:
        """Return to single items, since the items of the last block do not stack."""
        self.size, self._fast = 1, 0
