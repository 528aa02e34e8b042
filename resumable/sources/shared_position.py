"""An object whose position all epochs share, such as an open file or a generator."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from operator import getitem
from typing import Any, Generic, NoReturn, TypeVar, final

from ..core.position import Position
from ..core.stage import Stage
from ..errors import ExternalStateError

T = TypeVar("T")


@final
class SharedPosition(Generic[T]):
    """An object that each epoch reads from where it stands. Only the latest epoch may read it.

    Args:
      source: an iterator, or a file.
      is_file: whether the items are its lines.
      position: how many items were taken of it.
    """

    def __init__(self, source: Any, is_file: bool, position: int = 0) -> None:
        self._source = source
        self._is_file = is_file
        self._position = Position()
        self._position.move_to(position)
        self._turn: list[Iterator[T]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedPosition, (self._source, self._is_file, self.position)

    @property
    def position(self) -> int:
        """How many items were taken, by all epochs."""
        return self._position.number

    def begin(self, stage: Stage[T]) -> Iterator[T]:
        """The items for one epoch; the epoch before can take no more.

        No Python code runs between taking an item and handing it out, so no interrupt loses one.
        """
        source = self._source
        self._turn[:] = [_TakenByAnother(stage)]
        self._turn = [iter(source.readline, source.read(0)) if self._is_file else source]
        return self._position.counting(map(next, map(getitem, repeat(self._turn), repeat(0))))

    @property
    def turn(self) -> object:
        """An object that belongs to the latest epoch, and is another one in each epoch."""
        return self._turn


@final
class _TakenByAnother(Iterator[Any]):
    """Refuses every item: a later epoch reads the object."""

    def __init__(self, stage: Stage[Any]) -> None:
        self._stage = stage

    def __next__(self) -> NoReturn:
        raise taken_over(self._stage)


def taken_over(stage: Stage[Any]) -> ExternalStateError:
    """The error that an epoch gets if a later epoch reads its object."""
    return ExternalStateError(
        f"a later epoch reads {stage!r}, which has one place only; pass a function that makes the "
        "iterator, so that each epoch has its own"
    )
