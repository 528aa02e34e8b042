"""The window of a shuffled stream: which item leaves at each step, and which item replaces it."""

# The window is filled; then each step hands out the item of one slot, and the next item of
# upstream fills the slot before the following step. At the end the window drains in a seeded
# order. The slots emptied by many steps are computed at once (slots.py).

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar

from ..core.block import Block, block_items
from ..core.position import Position
from ..core.stage_iterator import Items
from ..core.transform import Transform, TransformIterator
from ..order.slots import Choices, SlotChoice

T = TypeVar("T")

READ_AT_ONCE = 4096
FEWEST_CHOICES = 16
MOST_CHOICES = 4096


class Reservoir(TransformIterator[T]):
    """The motion of the window, without a way to save the window."""

    def __init__(self, stage: Transform[T], epoch: int, seed: int, window: int) -> None:
        super().__init__(stage, epoch)
        self._window = window
        self._choice = SlotChoice(seed, epoch, window)
        self._position = Position()  # steps made, which is items handed out
        # Invariant: while not draining, every slot but `_hole` holds an item still to be
        # handed out. While draining, `_slots` holds the remaining items, the next item last.
        self._slots: list[Any] = []
        self._hole: int | None = None
        self._draining = False
        self._choices = self._choice.choices(0, 0)

    def pull(self, count: int) -> Block:
        self._make_ready()
        items: list[T] = []
        while len(items) < count and not self._draining:
            missing = count - len(items)
            if self._hole is None:
                items += self._fill()
            else:
                items += self._exchange(missing)
        if self._draining:
            items += self._drain_down(count - len(items))
        return items

    def items(self) -> Items[T]:
        return Items(chain.from_iterable(self._runs()))

    def _runs(self) -> Iterator[Iterable[T]]:
        self._make_ready()
        while self._hole is None and not self._draining:
            yield self._fill()
        if not self._draining:
            yield self._position.counting(self._exchanged())
            self._drain()
        yield self._position.counting(self._leaving())

    def _exchanged(self) -> Iterator[T]:
        """A step for each remaining item of upstream."""
        hole, slots = self._hole, self._slots
        assert hole is not None
        emptied = chain.from_iterable(self._emptied())
        for item, slot in zip(self._arriving(), emptied, strict=False):
            slots[hole] = item
            self._hole = hole = slot
            yield slots[slot]

    def _emptied(self) -> Iterator[list[int]]:
        """The slots emptied by further steps, in long lists."""
        while True:
            first = self._position.number
            choices = self._choices_of(first, 1)
            yield choices.slots_of(first, len(choices))

    def _arriving(self) -> Iterator[Any]:
        """Upstream's items, one by one."""
        return iter(self._upstream.items())

    def _make_ready(self) -> None:
        """Make the window ready for the first item after a resume."""

    def _fill(self) -> list[T]:
        """Fill the window and make the first step."""
        while missing := self._window - len(self._slots):
            block = self._read(min(missing, READ_AT_ONCE))
            self._slots += block
            if len(block) < min(missing, READ_AT_ONCE):
                self._drain()
                return []
        self._hole = int(self._choice.of_steps(0, 1)[0])
        self._position.pass_over(1)
        return [self._slots[self._hole]]

    def _exchange(self, count: int) -> list[T]:
        """Up to ``count`` steps; fewer if upstream ends."""
        count = min(count, READ_AT_ONCE)
        incoming = self._read(count)
        items = self._step(incoming) if incoming else []
        if len(incoming) < count:
            self._drain()
        return items

    def _step(self, incoming: list[Any]) -> list[T]:
        """Make a step for each item of ``incoming``, which fills the slot emptied before."""
        count, first = len(incoming), self._position.number - 1
        hole, *others = self._choices_of(first, count + 1).slots_of(first, count + 1)
        slots, items = self._slots, []
        # A loop over a list takes less time than NumPy with an array of objects.
        for item, slot in zip(incoming, others, strict=True):
            slots[hole] = item
            items.append(slots[slot])
            hole = slot
        self._hole = hole
        self._position.pass_over(count)
        return items

    def _drain(self) -> None:
        """Put the remaining items into their final order."""
        rest = [item for slot, item in enumerate(self._slots) if slot != self._hole]
        order = self._choice.draining(len(rest)).tolist() if rest else []
        self._slots = [rest[index] for index in reversed(order)]
        self._hole, self._draining = None, True
        self._choices = self._choice.choices(0, 0)

    def _leaving(self) -> Iterator[T]:
        """The remaining items, one by one."""
        slots = self._slots
        while slots:
            yield slots.pop()

    def _drain_down(self, count: int) -> list[T]:
        """Hand out up to ``count`` of the remaining items."""
        kept = max(len(self._slots) - count, 0)
        items: list[T] = self._slots[kept:][::-1]
        del self._slots[kept:]
        self._position.pass_over(len(items))
        return items

    def _choices_of(self, start: int, count: int) -> Choices:
        """Choices that include the ``count`` steps from ``start`` on."""
        if not self._choices.include(start, count):
            # Few at first: each round of a small window costs a separate permutation.
            size = min(max(2 * len(self._choices), FEWEST_CHOICES), MOST_CHOICES)
            self._choices = self._choice.choices(start, start + max(count, size))
        return self._choices

    def _read(self, count: int) -> list[Any]:
        return block_items(self._upstream.pull(count))
