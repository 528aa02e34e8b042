"""A window whose state is O(1): the items are read again, from a snapshot of upstream's state."""

# The slots of the window (reservoir.py) are a pure function of (seed, epoch, step), so the numbers
# of the items in the window are known at any step. A resume reads upstream again, from a snapshot
# before the oldest item, and passes over unneeded items where passing over is cheaper
# (rereading.py).

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np

from ..core.block import Indices, block_items
from ..core.position import Position
from ..core.reach import Reach
from ..core.stage_iterator import DeferredState, state_deferrer
from ..core.transform import Transform
from ..errors import StateMismatch
from ..order.slots import OLDEST_WINDOWS
from ..state.value import State, freeze, taken_state, unpack, unpack_count
from .rereading import groups, looked_up, most_unneeded
from .reservoir import READ_AT_ONCE, Reservoir

T = TypeVar("T")

SHORTEST_INTERVAL = 256


class SnapshotIterator(Reservoir[T]):
    """A window whose state is its position and a snapshot of upstream's state."""

    def __init__(self, stage: Transform[T], epoch: int, seed: int, window: int) -> None:
        super().__init__(stage, epoch, seed, window)
        self._start_epoch = epoch
        self._interval = max(window, SHORTEST_INTERVAL)
        self._consumed = Position()  # items read from upstream
        self._drained = 0  # items handed out since upstream ended
        # Upstream's states before items k * _interval, with the numbers of the items; oldest first.
        self._snapshots: deque[tuple[int, DeferredState]] = deque()
        self._rebuilt = True

    def get_state(self) -> State:
        start, upstream = 0, self._upstream.get_state
        if self._snapshots:
            needed = self._snapshot_before(self._position.number - self._drained)
            start, upstream = next(pair for pair in reversed(self._snapshots) if pair[0] <= needed)
        return {
            "position": self._position.number,
            "drained": self._drained,
            "start": start,
            "upstream": upstream(),
        }

    def _reached(self) -> Iterator[Reach]:
        # The window is filled before the first step, and each later step reads an item first.
        steps = self._position.number - self._drained
        read = steps + self._window - 1 if steps or self._drained else 0
        seen = read + (self._drained > 0)  # the end too
        self._upstream.skip(max(seen - self._consumed.number, 0))
        return self._upstream._reached()

    def set_state(self, state: State) -> None:
        names = ("position", "drained", "start", "upstream")
        position, drained, start, upstream = unpack(self._stage, state, *names)
        self._position.move_to(unpack_count(self._stage, "position", position))
        self._drained = unpack_count(
            self._stage, "drained", drained, min(position, self._window), "the window"
        )
        start = unpack_count(self._stage, "start", start)
        if start != self._snapshot_before(position - drained):
            raise StateMismatch(
                f"saved start={start} does not belong to position={position}", self._stage
            )
        self._upstream.set_state(upstream)
        self._snapshots.append((start, partial(taken_state, freeze(upstream))))
        self._consumed.move_to(start)
        self._rebuilt = False

    def _snapshot_before(self, steps: int) -> int:
        """The item before which upstream's state is needed after ``steps`` steps.

        The oldest item in the window was read at most 8 * window steps ago.
        """
        oldest = steps - 1 - (OLDEST_WINDOWS - 1) * self._window
        return max(oldest, 0) // self._interval * self._interval

    def _make_ready(self) -> None:
        if not self._rebuilt:
            self._rebuild()
            self._rebuilt = True

    def _arriving(self) -> Iterator[Any]:
        return chain.from_iterable(self._pieces())

    def _pieces(self) -> Iterator[Iterator[Any]]:
        """The items between the snapshots."""
        items = self._consumed.counting(iter(self._upstream.items()))
        stop = self._consumed.number
        while self._consumed.number == stop:
            wanted = self._next_piece(READ_AT_ONCE)
            stop += wanted
            yield islice(items, wanted)

    def _read(self, count: int) -> list[Any]:
        """Read ``count`` items, and take a snapshot wherever due."""
        items: list[Any] = []

        def read(wanted: int) -> int:
            piece = block_items(self._upstream.pull(wanted))
            items.extend(piece)
            return len(piece)

        self._advance(read, count)
        return items

    def _advance(self, move: Callable[[int], int], count: int) -> int:
        """``move`` over ``count`` items of upstream, and take a snapshot wherever due."""
        passed = 0
        while missing := count - passed:
            wanted = self._next_piece(missing)
            moved = move(wanted)
            self._consumed.pass_over(moved)
            passed += moved
            if moved < wanted:
                break
        return passed

    def _next_piece(self, count: int) -> int:
        """How many of ``count`` items come before the next snapshot; takes a snapshot due here."""
        until = self._interval - self._consumed.number % self._interval
        if until == self._interval:
            self._take_snapshot()
        return min(count, until)

    def _take_snapshot(self) -> None:
        if not self._snapshots or self._snapshots[-1][0] < self._consumed.number:
            self._snapshots.append((self._consumed.number, state_deferrer(self._upstream)()))
        needed = self._snapshot_before(self._position.number)
        while len(self._snapshots) > 1 and self._snapshots[1][0] <= needed:
            self._snapshots.popleft()

    def _leaving(self) -> Iterator[T]:
        for item in super()._leaving():
            self._drained += 1
            yield item

    def _drain_down(self, count: int) -> list[T]:
        items = super()._drain_down(count)
        self._drained += len(items)
        return items

    def _rebuild(self) -> None:
        """Read the window again, in the form after the last step before the drain."""
        position, drained = self._position.number, self._drained
        self._position.move_to(position - drained)
        self._drained = 0
        if self._position.number:
            self._refill()
        if drained:
            # Upstream had ended: filling or exchanging reaches the end and drains.
            more = self._exchange(1) if self._position.number else self._fill()
            if more or len(self._slots) < drained:
                raise self._changed(position)
            self._drain_down(drained)

    def _refill(self) -> None:
        """Make the items of the window after ``_position`` steps again."""
        steps = self._position.number
        hole = int(self._choice.of_steps(steps - 1, steps)[0])
        numbers = self._choice.contents(steps)
        order = np.argsort(numbers, kind="stable")
        order = order[order != hole]  # its item was handed out
        slots: list[Any] = [None] * len(numbers)
        stop = self._window + steps - 1
        items = chain.from_iterable(self._made_again(numbers[order], stop))
        for slot, item in zip(order.tolist(), items, strict=True):
            slots[slot] = item
        self._move_to(stop)
        self._slots, self._hole = slots, hole

    def _made_again(self, numbers: Indices, stop: int) -> Iterator[list[Any]]:
        """The items ``numbers``, ascending and before ``stop``, in lists."""
        indexed = looked_up(self._stage.upstream, self._start_epoch)
        if indexed is not None:
            self._move_to(stop)  # raises if upstream has fewer items now
            for start in range(0, len(numbers), READ_AT_ONCE):
                yield block_items(indexed.gather(numbers[start : start + READ_AT_ONCE]))
            return
        listed = numbers.tolist()
        unneeded = most_unneeded(self._stage.upstream, self._upstream, self._window)
        for start, end in groups(numbers, unneeded):
            first, until = listed[start], listed[end - 1] + 1
            self._move_to(first)
            items = self._read(until - first)
            if len(items) < until - first:
                raise self._changed(self._position.number)
            whole = len(items) == end - start
            yield items if whole else [items[number - first] for number in listed[start:end]]

    def _move_to(self, number: int) -> None:
        """Go over the items before ``number``."""
        missing = number - self._consumed.number
        if self._advance(self._upstream.skip, missing) < missing:
            raise self._changed(self._position.number)

    def _changed(self, position: int) -> StateMismatch:
        return StateMismatch(
            f"saved position={position} does not fit the {self._consumed.number} items of upstream; "
            "did the data change since the save?",
            self._stage,
        )
