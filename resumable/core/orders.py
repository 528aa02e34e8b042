"""Lengths, a search for a position, and the protocols that a relation requires of the order of a stage."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from ..errors import InvalidArgument
from ..state.value import LARGEST_POSITION
from .block import Indices

MOST_ITEMS: Final = LARGEST_POSITION

Length: TypeAlias = int | float | None
"""The number of items of one epoch: `math.inf` if endless, None if unknown without reading."""


def countable(length: int | float) -> int:
    """``length``, where an endless epoch counts as 2**62 items."""
    return int(min(length, MOST_ITEMS))


def check_reach(last: int) -> None:
    """Refuse item ``last`` of an endless stage unless it is among the first 2**62.

    Raises:
      InvalidArgument: giving the number of the item.
    """
    if last >= MOST_ITEMS:
        raise InvalidArgument(
            f"an item of an endless pipeline must be among the first 2**62, got item {last}"
        )


def last_up_to(value: int, rising: Callable[[int], int], start: int) -> int:
    """The last number, not below ``start``, for which ``rising`` is at most ``value``."""
    step = 1
    while rising(start + step) <= value:
        start += step
        step *= 2
    return start + bisect_right(range(1, step), value, key=lambda ahead: rising(start + ahead))


class Order(Protocol):
    """A bijection of the indices of an epoch."""

    def __call__(self, indices: Indices) -> Indices:
        """The item at each index; both of shape (n,)."""

    def inverse(self, items: Indices) -> Indices:
        """The index of each item; both of shape (n,)."""


class Remains(Protocol):
    """The items that remain after others are left out."""

    length: int | float

    def index_of(self, place: int) -> int:
        """The index among all items of the remaining item ``place``."""

    def indices_of(self, places: Indices) -> Indices:
        """`index_of` for several places; both of shape (n,)."""


class TurnOrder(Protocol):
    """The input of each output."""

    def items_of(self, outputs: Indices) -> tuple[Indices, Indices]:
        """The input of each output, and the item's index in the input; all of shape (n,)."""

    def turns_before(self, count: int) -> Sequence[int | float]:
        """Items of each input before output ``count``; all items plus 1 if the end was seen."""

    def turn_of(self, number: int, item: int) -> int:
        """The output made from ``item`` of input ``number``."""
