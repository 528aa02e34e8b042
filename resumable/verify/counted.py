"""Count the items that leave a stage."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, final

from ..core.block import Block, Indices, block_length
from ..core.graph import rebuilt
from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from ..core.transform import IndexedTransform, TransformIterator
from ..state.value import State

__all__ = ["counted"]

T = TypeVar("T")


def counted(stage: Stage[Any], counter: Counter[int], *, sources_only: bool) -> Stage[Any]:
    """``stage``, such that the items leaving each stage are counted by the stage's number.

    What a source reads again to come to a restored position is counted too.
    """
    return rebuilt(
        stage,
        lambda number, found: (
            found if sources_only and found.inputs else Counted(found, number, counter)
        ),
    )


@final
@dataclass(frozen=True, eq=False, repr=False)
class Counted(IndexedTransform[T]):
    """Upstream's items, counted. State: upstream's own."""

    transparent: ClassVar[bool] = True
    relies_on: ClassVar[frozenset[str]] = frozenset()

    number: int
    counter: Counter[int]

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _CountedIterator(self, epoch)

    def gather(self, indices: Indices, epoch: int = 0) -> Block:
        self.counter[self.number] += len(indices)
        return self.upstream.gather(indices, epoch)


class _CountedIterator(TransformIterator[T]):
    _stage: Counted[T]

    def __init__(self, stage: Counted[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._reread = 0

    def pull(self, count: int) -> Block:
        block = self._upstream.pull(count)
        reread = self._upstream.reread
        self._stage.counter[self._stage.number] += block_length(block) + reread - self._reread
        self._reread = reread
        return block

    def get_state(self) -> State:
        return self._upstream.get_state()

    def set_state(self, state: State) -> None:
        self._upstream.set_state(state)
