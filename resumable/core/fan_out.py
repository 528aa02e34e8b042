"""Random access to items of which a fixed number is made of each upstream item."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, final

import numpy as np

from ..errors import InvalidArgument, MalformedItem, shorten
from .block import Block, Indices, block_items, slice_block, take_rows, ungroup
from .indexed import Indexed
from .prepared_items import PreparedItems
from .stage import MOST_ITEMS, Length

T = TypeVar("T")

NONE: Final = -1


def expanded_length(upstream: Length, size: int | None) -> Length:
    """How many items there are, if ``size`` are made of each of ``upstream``.

    Raises:
      InvalidArgument: if they are more than 2**62.
    """
    if size is None or upstream is None or upstream == math.inf:
        return None if size is None else upstream
    if upstream * size > MOST_ITEMS:
        raise InvalidArgument(
            f"size must make at most 2**62 items, got {shorten(size)} of each of {upstream}"
        )
    return int(upstream) * size


def check_fan_out(size: int, found: int) -> None:
    """Refuse an item of which other than ``size`` items are made."""
    if found != size:
        raise MalformedItem(f"each item must make size={size} items, got one that makes {found}")


def fanned_out(upstream: Indexed[Any], size: int, expand: Callable[[Any], Block]) -> Indexed[Any]:
    """The items that ``expand`` makes of each of ``upstream``, one after another.

    Args:
      upstream: the items that they are made of.
      size: how many are made of each, at least 1.
      expand: returns a block of ``size`` items, the same in every call.
    """
    return Indexed(
        lambda indices: _gathered(upstream, size, expand, indices),
        _LastExpanded(upstream, size, expand).item,
        prepare=lambda indices: _FannedOut(upstream, size, expand, indices),
        every_epoch=upstream.every_epoch,
        indices_per_epoch=upstream.indices_per_epoch * size,
    )


def _gathered(
    upstream: Indexed[Any], size: int, expand: Callable[[Any], Block], indices: Indices
) -> Block:
    origins, numbers = np.unique(indices // size, return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    places = (indices % size)[order]
    bounds = np.searchsorted(numbers[order], np.arange(len(origins) + 1)).tolist()
    items = block_items(upstream.gather(origins))
    blocks = [
        take_rows(expand(item), places[begin:end])
        for item, begin, end in zip(items, bounds, bounds[1:], strict=False)
    ]
    return ungroup(blocks, order)


class _LastExpanded:
    """Looks items up one by one, and keeps what was made of the last upstream item."""

    def __init__(self, upstream: Indexed[Any], size: int, expand: Callable[[Any], Block]) -> None:
        self._upstream, self._size, self._expand = upstream, size, expand
        self._number = NONE
        self._block: Block = []

    def next_item(self, index: int) -> Any:
        """The item at ``index``, of the same block as the last one if that has it."""
        number, place = divmod(index, self._size)
        if number != self._number:
            self._block = self._expand(self._upstream.item(number))
            self._number = number
        return block_items(slice_block(self._block, place, place + 1))[0]

    def item(self, index: int) -> Any:
        """The item at ``index``."""
        return _LastExpanded(self._upstream, self._size, self._expand).next_item(index)


@final
class _FannedOut(PreparedItems[Any]):
    """Such items at ``indices``, shape (places,), int64."""

    def __init__(
        self, upstream: Indexed[Any], size: int, expand: Callable[[Any], Block], indices: Indices
    ) -> None:
        self._upstream, self._size, self._expand = upstream, size, expand
        self._indices = indices

    def gather(self, places: range) -> Block:
        indices = self._indices[places.start : places.stop]
        return _gathered(self._upstream, self._size, self._expand, indices)

    def items(self, places: range) -> Iterator[Any]:
        last = _LastExpanded(self._upstream, self._size, self._expand)
        return map(last.next_item, self._indices[places.start : places.stop].tolist())
