"""Files, generators, loaders: objects with a single position, read only by the latest iterator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from operator import getitem
from typing import Any, Final, Generic, NoReturn, TypeVar, final
from weakref import WeakValueDictionary

from ..core.position import Position
from ..core.stage import Stage
from ..errors import ExternalStateError

T = TypeVar("T")


@final
class SharedPosition(Generic[T]):
    """An object read by each epoch from the present position. Only the latest epoch may read.

    Args:
      source: an iterator, or a file.
      is_file: whether ``source`` is a file, with lines as items.
      position: number of items taken so far.
    """

    def __init__(self, source: Any, is_file: bool, position: int = 0) -> None:
        self._source = source
        self._is_file = is_file
        self._position = Position()
        self._position.move_to(position)

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedPosition, (self._source, self._is_file, self.position)

    @property
    def position(self) -> int:
        """The number of items taken, by all epochs."""
        return self._position.number

    def begin(self, stage: Stage[T]) -> Turn[T]:
        """The turn of one epoch; the previous epoch can take no more items."""
        source = self._source
        items = iter(source.readline, source.read(0)) if self._is_file else source
        turn = Turn([source], stage, items)
        turn.items = self._position.counting(turn.items)
        return turn


@final
class Turn(list[Iterator[T]]):
    """The right of an iterator to read ``objects``, until another iterator of any pipeline gets it.

    No Python code runs between taking an item and handing it out, so no interrupt loses an item.

    Attributes:
      items: the items passed in, as long as the turn lasts.
    """

    def __init__(self, objects: Iterable[Any], stage: Stage[T], items: Iterator[T]) -> None:
        super().__init__([items])
        self._stage = stage
        self._objects = list(objects)  # alive, so that no other object gets their addresses
        for each in self._objects:
            earlier = _LATEST.get(id(each))
            if earlier is not None:
                earlier[0] = _TakenByAnother(earlier._stage)
            _LATEST[id(each)] = self
        self.items: Iterator[T] = map(next, map(getitem, repeat(self), repeat(0)))

    def check(self) -> None:
        """Raise an error if another iterator has the turn."""
        if isinstance(self[0], _TakenByAnother):
            next(self[0])


_LATEST: Final[WeakValueDictionary[int, Turn[Any]]] = WeakValueDictionary()
"""The turn that reads an object, by the address of the object."""


@final
class _TakenByAnother(Iterator[Any]):
    """Refuses every item: a later iterator reads the object."""

    def __init__(self, stage: Stage[Any]) -> None:
        self._stage = stage

    def __next__(self) -> NoReturn:
        raise ExternalStateError(
            f"a later iterator reads the object of {self._stage!r}, which has one position only; pass a "
            "function that makes it, so that each iterator has its own: from_iterable(lambda: make())"
        )
