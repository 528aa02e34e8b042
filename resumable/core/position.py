"""The number of the next item, which advances without Python code per item."""

# `compress` takes an item, then a tick, and passes the item on; the remaining ticks give the number
# of items passed. Since the item is taken first, neither an exception nor the end is counted.

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import compress, repeat
from typing import Any, Final, TypeVar, final

T = TypeVar("T")

MOST_TICKS: Final = sys.maxsize
# The remaining ticks are read from a bound method: `operator.length_hint` takes four times as long.
NO_TICKS: Final[Any] = repeat(True, 0).__length_hint__


@final
class Position:
    """The number of the next item, equal to the number of earlier items.

    Attributes:
      end: the number when no tick is left.
      left: returns the number of remaining ticks.
    """

    __slots__ = ("_step", "end", "left")

    def __init__(self) -> None:
        self._step = 1
        self.move_to(0)

    @property
    def number(self) -> int:
        """Number of items before the next item."""
        number: int = self.end - self._step * self.left()
        return number

    def move_to(self, number: int) -> None:
        """Stand before item ``number``; earlier iterators of `counting` no longer count."""
        self.end, self.left = number, NO_TICKS

    def pass_over(self, count: int) -> None:
        """Move on by ``count`` at once."""
        self.end += count

    def stop_counting(self) -> None:
        """Let `end` be the number; a caller that moves in blocks may then raise `end`."""
        self.move_to(self.number)

    def counting(self, items: Iterator[T], step: int = 1) -> Iterator[T]:
        """``items``; each item that is taken moves the position on by ``step``."""
        ticks: Any = repeat(True, MOST_TICKS)
        end = self.number + step * MOST_TICKS
        self.end, self.left, self._step = end, ticks.__length_hint__, step
        return compress(items, ticks)


class CountsItems:
    """Motion with a `Position` that counts the items before the next item."""

    _item_position: Position

    @property
    def _position(self) -> int:
        return self._item_position.number

    @_position.setter
    def _position(self, number: int) -> None:
        self._item_position.move_to(number)
