"""Random access to items where each upstream item makes a fixed number of items."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from ..errors import InvalidArgument, MalformedItem, shorten
from .arguments import check_field, check_int
from .block import Block
from .identity import ITEMS, PARTS, RANK, Dependence
from .orders import MOST_ITEMS, Length
from .relation import Held, Relation, Split
from .transform import Transform

T = TypeVar("T")


class FansOut(Transform[T]):
    """A stage that makes ``size`` items of each upstream item; None if the number varies.

    A subclass has the field, and returns a function that makes the items from `_expansion`.
    """

    depends_on: ClassVar[Dependence] = ITEMS | PARTS | RANK

    size: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "size", check_int, optional=True, minimum=1)
        expanded_length(self.upstream.length, self.size)

    @abstractmethod
    def _expansion(self, size: int, epoch: int) -> Callable[[Any], Block]:
        """A function from an upstream item to a block of ``size`` items, the same in every call."""

    @property
    def _in_rows(self) -> bool:
        """Whether the items made of an upstream item are the items it was made of, in order."""
        return False

    def relation(self, epoch: int) -> Relation:
        if self.size is None:
            return Held(self, epoch)
        make = self._expansion(self.size, epoch)
        return Split(self, epoch, size=self.size, make=make, in_rows=self._in_rows)


def expanded_length(upstream: Length, size: int | None) -> Length:
    """Number of items, if ``size`` items are made of each of ``upstream`` items.

    Raises:
      InvalidArgument: if the number exceeds 2**62.
    """
    if size is None or upstream is None or upstream == math.inf:
        return None if size is None else upstream
    if upstream * size > MOST_ITEMS:
        raise InvalidArgument(
            f"size must make at most 2**62 items, got {shorten(size)} of each of {upstream}"
        )
    return int(upstream) * size


def check_fan_out(size: int, found: int) -> None:
    """Refuse an item that makes ``found`` items instead of ``size``."""
    if found != size:
        raise MalformedItem(f"each item must make size={size} items, got one that makes {found}")
