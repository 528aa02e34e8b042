"""Stop at the first item that a predicate refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar, final

from ..core import (
    PARTS,
    RANK,
    Dependence,
    ItemByItem,
    Items,
    OwnStateIterator,
    SavedState,
    StageIterator,
)
from ..state.value import State, unpack, unpack_flag
from .filter import ByPredicate

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class TakeWhile(ByPredicate[T]):
    """The items before the first item refused by ``predicate``.

    The refused item is read and dropped, and no later item is read.

    State: upstream's, whether the end has come, and the predicate's if the predicate carries state.
    No random access: the end is known only by calling ``predicate``.

    Args:
      upstream: stage whose items are tried.
      predicate: called with an item.
      fn_version: a string or a number; change this value whenever the function's results change. A
        state saved with another version is refused.

    Raises:
      InvalidType: if ``predicate`` cannot be called.

    >>> list(rs.from_sequence([3, 1, 4, 1, 5]).take_while(lambda item: item < 4))
    [3, 1]
    """

    unchanged = True
    depends_on: ClassVar[Dependence] = PARTS | RANK

    @property
    def state_cost(self) -> SavedState:
        own = " and the function's state" if self.carries_state else ""
        return super().state_cost._replace(text=f"whether it has ended{own}")

    def start_calling(self, epoch: int) -> StageIterator[T]:
        return _TakeWhileIterator(self, epoch)


class _TakeWhileIterator(ItemByItem[T], OwnStateIterator[T]):
    _stage: TakeWhile[T]
    _ended = False

    def items(self) -> Items[T]:
        return Items(self._taken())

    def _taken(self) -> Iterator[T]:
        predicate = self._stage.predicate
        if self._ended:
            return
        for item in self._upstream.items():
            if not predicate(item):
                self._ended = True
                break
            yield item

    def get_state(self) -> State:
        return {"ended": self._ended, "upstream": self._upstream.get_state()}

    def own_state(self) -> State:
        return {"ended": self._ended}

    def set_state(self, state: State) -> None:
        ended, upstream = unpack(self._stage, state, "ended", "upstream")
        self._ended = unpack_flag(self._stage, "ended", ended)
        self._upstream.set_state(upstream)
