"""Count the items leaving a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar, final

from ..core.block import Block, Indices, block_length
from ..core.graph import rebuilt, walk
from ..core.indexed import Indexed
from ..core.iterator import PipelineIterator
from ..core.stage import Stage
from ..core.stage_iterator import SourceIterator, StageIterator
from ..core.transform import PassThrough, StateForwardingIterator
from ..pipeline import Pipeline
from ..stages.partition import Partition

T = TypeVar("T")

AFTER_RESUME: Final = 20
"""Fewest items drawn after a resume to count the items read again."""


def after_resume(stage: Stage[Any]) -> int:
    """How many items to draw after a resume until every partition has repeated all reads.

    A partition repeats reads at the first turn.
    """
    turns = (found.count for found, _ in walk(stage) if isinstance(found, Partition))
    return max(AFTER_RESUME, *turns, 0)


def reads_of_next(iterator: Iterator[Any], items: int, counter: Counter[int]) -> int:
    """How many items the sources deliver, by ``counter``, for the next ``items``."""
    before = counter.total()
    for _ in islice(iterator, items):
        pass
    return counter.total() - before


def reread(
    pipeline: Pipeline[Any], iterator: PipelineIterator[Any], items: int, counter: Counter[int]
) -> int:
    """How many source items a resume at this position reads again; draws the next ``items``."""
    state = iterator.get_state()
    needed = reads_of_next(iterator, items, counter)
    with pipeline.resume(state) as resumed:
        return max(reads_of_next(resumed, items, counter) - needed, 0)


def counted(stage: Stage[Any], counter: Counter[int], *, sources_only: bool) -> Stage[Any]:
    """A copy of ``stage`` with the items leaving each stage counted in ``counter``, by stage number.

    Items read again by a source to reach a restored position are counted too.
    """
    return rebuilt(
        stage,
        lambda number, found: (
            found if sources_only and found.inputs else Counted(found, number, counter)
        ),
    )


@final
@dataclass(frozen=True, eq=False, repr=False)
class Counted(PassThrough[T]):
    """Upstream's items, counted. State: upstream's own."""

    ignores_items = True

    number: int
    counter: Counter[int]

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _CountedIterator(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[T] | None:
        upstream = self.upstream.indexed(epoch)
        return upstream and Indexed(partial(self._gather, upstream))

    def _gather(self, upstream: Indexed[T], indices: Indices) -> Block:
        self.counter[self.number] += len(indices)
        return upstream.gather(indices)


class _CountedIterator(StateForwardingIterator[T]):
    _stage: Counted[T]

    def __init__(self, stage: Counted[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._reread = 0

    def pull(self, count: int) -> Block:
        block = self._upstream.pull(count)
        reread = self._upstream.reread if isinstance(self._upstream, SourceIterator) else 0
        self._stage.counter[self._stage.number] += block_length(block) + reread - self._reread
        self._reread = reread
        return block

    def skip(self, count: int) -> int:
        if type(self._upstream).skip is StageIterator.skip:  # skips by making the items
            return super().skip(count)
        return self._upstream.skip(count)
