"""Shuffle a stream through a window whose state is O(1)."""

# The slots of the window (reservoir.py) are a pure function of (seed, epoch, step), so the items
# in it at any step are known by number. A resume reads upstream again from a snapshot taken
# before the oldest of them, and keeps only those.

from __future__ import annotations

from collections import deque
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, TypeVar, final

import numpy as np

from ..arguments import check_bool, check_int, check_seed
from ..block import Block, block_items, block_length
from ..errors import StateMismatch, UnencodableState
from ..stage import StageIterator
from ..state import State, TakenState, freeze, settled, unpack, unpack_count
from ..transform import Transform
from .reservoir import READ_AT_ONCE, Reservoir
from .slots import OLDEST_WINDOWS

__all__ = ["WindowShuffle"]

T = TypeVar("T")

LARGEST_WINDOW = 2**31
SHORTEST_INTERVAL = 256


@final
@dataclass(frozen=True, eq=False, repr=False)
class WindowShuffle(Transform[T]):
    """The items in an order drawn from (``seed``, epoch) within a moving window.

    State: O(1), the position and one snapshot of upstream's state. A resume reads at most
    ``9 * window + 256`` items of upstream again. With ``carry`` the items in the window are the
    state instead, and nothing is read again; then a state costs O(window) to take, and a
    prefetch after it takes one for every item, so batch before it. An item leaves the window after at most
    ``8 * window`` steps.

    Args:
      upstream: any stage.
      seed: in [0, 2**64).
      window: number of items held back, from 1 to 2**31.
      carry: put the items in the state, for a source too slow to read again.

    Raises:
      UnencodableState: by `get_state` under ``carry``, if an item cannot be saved.
    """

    identity: ClassVar[tuple[str, ...]] = ("seed", "window", "carry")

    seed: int
    _: KW_ONLY
    window: int
    carry: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "seed", check_seed("seed", self.seed))
        window = check_int("window", self.window, minimum=1, maximum=LARGEST_WINDOW)
        object.__setattr__(self, "window", window)
        check_bool("carry", self.carry)

    @property
    def length(self) -> int | float | None:
        return self.upstream.length

    @property
    def state_cost(self) -> str:
        if self.carry:
            return f"the position and up to {self.window} items"
        again = 9 * self.window + 256
        return f"the position; a resume reads at most {again} items again"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _CarryingIterator(self, epoch) if self.carry else _WindowIterator(self, epoch)


class _WindowIterator(Reservoir[T]):
    """With the numbers of the items as its state, and a snapshot to read them again from."""

    def __init__(self, stage: WindowShuffle[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._interval = max(stage.window, SHORTEST_INTERVAL)
        self._consumed = 0  # items read from upstream
        self._drained = 0  # items handed out since upstream ended
        # Upstream's states before items k * _interval, with their numbers; oldest first.
        self._snapshots: deque[tuple[int, TakenState]] = deque()
        self._rebuilt = True

    def pull(self, count: int) -> Block:
        if not self._rebuilt:
            self._rebuild()
            self._rebuilt = True
        return super().pull(count)

    def get_state(self) -> State:
        start, upstream = 0, self._upstream.try_state() if not self._snapshots else {}
        if self._snapshots:
            needed = self._snapshot_before(self._position - self._drained)
            start, upstream = next(pair for pair in reversed(self._snapshots) if pair[0] <= needed)
        return {
            "position": self._position,
            "drained": self._drained,
            "start": start,
            "upstream": settled(upstream),
        }

    def set_state(self, state: State) -> None:
        names = ("position", "drained", "start", "upstream")
        position, drained, start, upstream = unpack(self._stage, state, *names)
        self._position = unpack_count(self._stage, "position", position)
        self._drained = unpack_count(
            self._stage, "drained", drained, min(position, self._stage.window), "the window"
        )
        start = unpack_count(self._stage, "start", start)
        if start != self._snapshot_before(position - drained):
            raise StateMismatch(
                f"saved start={start} does not belong to position={position}", self._stage
            )
        self._upstream.set_state(upstream)
        self._snapshots.append((start, freeze(upstream)))
        self._consumed, self._rebuilt = start, False

    def _snapshot_before(self, steps: int) -> int:
        """Number of the item before which upstream's state is needed after ``steps`` steps.

        The oldest item in the window was read at most 8 * window steps ago.
        """
        oldest = steps - 1 - (OLDEST_WINDOWS - 1) * self._stage.window
        return max(oldest, 0) // self._interval * self._interval

    def _read(self, count: int) -> list[Any]:
        """Read ``count`` items, and a snapshot wherever one belongs."""
        items: list[Any] = []
        while len(items) < count:
            until = self._interval - self._consumed % self._interval
            if until == self._interval:
                self._take_snapshot()
            wanted = min(count - len(items), until)
            block = self._upstream.pull(wanted)
            self._consumed += block_length(block)
            items += block_items(block)
            if block_length(block) < wanted:
                break
        return items

    def _take_snapshot(self) -> None:
        if not self._snapshots or self._snapshots[-1][0] < self._consumed:
            self._snapshots.append((self._consumed, self._upstream.try_state()))
        needed = self._snapshot_before(self._position)
        while len(self._snapshots) > 1 and self._snapshots[1][0] <= needed:
            self._snapshots.popleft()

    def _drain_down(self, count: int) -> list[T]:
        items = super()._drain_down(count)
        self._drained += len(items)
        return items

    def _rebuild(self) -> None:
        """Read the window again, as it was when the last step before the drain was made."""
        position, drained = self._position, self._drained
        self._position, self._drained = position - drained, 0
        if self._position:
            self._refill()
        if drained:
            # Upstream had ended: filling or exchanging finds that out and drains.
            more = self._exchange(1) if self._position else self._fill()
            if more or len(self._slots) < drained:
                raise self._changed(position)
            self._drain_down(drained)

    def _refill(self) -> None:
        """Read the items that were in the window after ``_position`` steps."""
        steps = self._position
        hole = int(self._choice.of_steps(steps - 1, steps)[0])
        numbers = self._choice.contents(steps)
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        slots: list[Any] = [None] * len(numbers)
        stop = self._stage.window + steps - 1
        while self._consumed < stop:
            first = self._consumed
            wanted = min(READ_AT_ONCE, stop - first)
            block = self._read(wanted)
            if len(block) < wanted:
                raise self._changed(steps)
            here = slice(*np.searchsorted(ordered, (first, first + wanted)).tolist())
            places = zip(order[here].tolist(), ordered[here].tolist(), strict=True)
            for slot, number in places:
                slots[slot] = block[number - first]
        self._slots, self._hole = slots, hole

    def _changed(self, position: int) -> StateMismatch:
        return StateMismatch(
            f"saved position={position} does not fit the {self._consumed} items of upstream; "
            "did the data change since the save?",
            self._stage,
        )


class _CarryingIterator(Reservoir[T]):
    """With the items of the window as its state."""

    def get_state(self) -> State:
        slots = list(self._slots)
        if self._hole is not None:
            slots[self._hole] = None
        try:
            carried = freeze(slots, "carried items")
        except UnencodableState as error:
            raise UnencodableState(f"{self._stage!r}: {error}; use carry=False") from None
        return {
            "position": self._position,
            "draining": self._draining,
            "hole": self._hole,
            "slots": carried,
            "upstream": self._upstream.get_state(),
        }

    def set_state(self, state: State) -> None:
        names = ("position", "draining", "hole", "slots", "upstream")
        position, draining, hole, slots, upstream = unpack(self._stage, state, *names)
        self._position = unpack_count(self._stage, "position", position)
        window = self._stage.window
        if not isinstance(slots, list) or not isinstance(draining, bool) or len(slots) > window:
            raise StateMismatch(
                f"saved slots must be a list of at most window={window} items", self._stage
            )
        if draining and hole is not None:
            raise StateMismatch("a window that drains has no hole", self._stage)
        if hole is not None:
            unpack_count(self._stage, "hole", hole, len(slots) - 1, "the window")
        if not draining and len(slots) not in (0 if hole is None else window, window):
            raise StateMismatch(f"saved slots={len(slots)} are fewer than the window", self._stage)
        self._upstream.set_state(upstream)
        self._slots = freeze(slots)
        self._hole, self._draining = hole, draining
