"""Replace every item by several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, TypeVar, final

from ..core.block import Block
from ..core.carried import check_stateless
from ..core.expansion import close_expansion, expand
from ..core.stage import ITEMS, RANK, Reliance
from ..core.stage_iterator import StageIterator
from ..core.transform import Transform, TransformIterator
from ..errors import StateMismatch
from ..state.value import State, TakenState, copy_taken, take_state, unpack, unpack_count

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class FlatMap(Transform[T]):
    """The items of ``fn(item)`` for every item, one after another.

    State: O(1), upstream's from before the item it is inside, and an offset. A resume reads
    that item again, calls ``fn`` with it, and skips what was handed out (at no cost, if
    ``fn`` returns a random-access pipeline).

    Args:
      upstream: stage whose items are expanded.
      fn: makes an iterable or a pipeline of one item, the same in every run.
    """

    relies_on: ClassVar[Reliance] = ITEMS | RANK
    state_cost = "an offset; a resume reads the item it is inside again"

    fn: Callable[[Any], Iterable[T]]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stateless("fn", self.fn)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return ExpandingIterator(self, epoch, self.fn)


class ExpandingIterator(TransformIterator[T]):
    """Walk the items that ``fn`` makes of each upstream item."""

    def __init__(self, stage: Transform[T], epoch: int, fn: Callable[[Any], Iterable[T]]) -> None:
        super().__init__(stage, epoch)
        self._fn = fn
        self._start_epoch = epoch
        self._inner: Iterator[T] | None = None
        # Upstream's state before the item that `_inner` was made of, while there is one.
        self._before: TakenState | None = None
        # Items of it that were handed out, or are to be skipped while `_inner` is None.
        self._offset = 0

    def pull(self, count: int) -> Block:
        items: list[T] = []
        while len(items) < count:
            if self._inner is None and not self._open():
                break
            assert self._inner is not None
            missing = count - len(items)
            drawn = list(islice(self._inner, missing))
            self._offset += len(drawn)
            items += drawn
            if len(drawn) < missing:
                self._close_inner()
                self._before, self._offset = None, 0
        return items

    def close(self) -> None:
        self._close_inner()
        super().close()

    def _close_inner(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            close_expansion(inner)

    def get_state(self) -> State:
        before = self._before
        upstream = self._upstream.get_state() if before is None else copy_taken(before)
        return {"offset": self._offset, "upstream": upstream}

    def set_state(self, state: State) -> None:
        offset, upstream = unpack(self._stage, state, "offset", "upstream")
        self._offset = unpack_count(self._stage, "offset", offset)
        self._upstream.set_state(upstream)

    def _open(self) -> bool:
        before = take_state(self._upstream.get_state)
        try:
            item = next(self._upstream)
        except StopIteration:
            if self._offset:
                raise StateMismatch(
                    f"saved offset={self._offset}, but upstream has no further item; "
                    "did the data shrink since the save?",
                    self._stage,
                ) from None
            return False
        self._inner = expand(self._fn(item), self._start_epoch, self._offset, self._stage)
        self._before = before
        return True
