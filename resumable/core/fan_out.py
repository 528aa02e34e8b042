"""Random access to items of which a fixed number is made of each upstream item."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar, final

import numpy as np

from ..errors import InvalidArgument, MalformedItem, shorten
from ..state.value import unpack_count
from .arguments import check_field, check_int
from .block import Block, Indices, block_items, slice_block, take_rows, ungroup
from .derived import derived
from .flow import Flow
from .indexed import Indexed
from .prepared_items import PreparedItems
from .reliance import ITEMS, PARTS, RANK, Reliance
from .stage import MOST_ITEMS, Length
from .transform import Transform

T = TypeVar("T")

NONE: Final = -1


class FansOut(Transform[T]):
    """A stage that makes ``size`` items of each of upstream's, one after another; None if that differs.

    A subclass has the field, and says in `_expansion` how they are made.
    """

    flow = Flow.EXPANDED
    relies_on: ClassVar[Reliance] = ITEMS | PARTS | RANK

    size: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "size", check_int, optional=True, minimum=1)
        expanded_length(self.upstream.length, self.size)

    @derived
    def length(self) -> Length:
        return expanded_length(self.upstream.length, self.size)

    @abstractmethod
    def _expansion(self, size: int, epoch: int) -> Callable[[Any], Block]:
        """What returns a block of the ``size`` items made of one, the same in every call."""

    def indexed(self, epoch: int = 0) -> Indexed[T] | None:
        upstream = self.upstream.indexed(epoch)
        if upstream is None or self.size is None:
            return None
        return fanned_out(upstream, self.size, self._expansion(self.size, epoch))

    def _inputs_reached(self, count: float) -> Sequence[float]:
        if self.size is None:
            return super()._inputs_reached(count)
        return [-(-count // self.size)]

    def _position_after(self, upstream: int, state: Mapping[str, Any]) -> int:
        offset = unpack_count(self, "offset", state.get("offset"))
        return upstream * (self.size or 1) + offset


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
        needs=upstream.needs_of(lambda indices: indices // size),
        last_of=(upstream, lambda index: index // size),
        items_each=upstream.items_each,
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
