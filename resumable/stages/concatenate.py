"""Chain pipelines, one after another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, TypeVar, final

import numpy as np

from ..core import (
    ITEMS,
    PARTS,
    Block,
    CallsFunction,
    Combine,
    Flow,
    IdentityFields,
    Indexed,
    Indices,
    Items,
    Length,
    MovesInBlocks,
    Reliance,
    SavedState,
    StageIterator,
    block_length,
    blocks_of,
    derived,
)
from ..core.block import concatenate
from ..core.combine import NAMES
from ..core.graph import walk
from ..core.reach import Reach, reached_all, reached_by_index
from ..core.timeline import UNBOUNDED
from ..errors import InvalidArgument
from ..state.value import State, unpack, unpack_count

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Concatenate(Combine[T]):
    """All items of the first upstream, then all of the second, and so on.

    State: O(1), the number of the current upstream, and its state. Random access if all
    upstreams have it and all but the last are finite. At a resume further upstreams may follow those
    that there were, if the end of those was not reached.

    Args:
      upstreams: one or more, or one dict of them.

    Raises:
      InvalidArgument: if there is no upstream, if they have more than 2**62 items together, or if
        one of them calls a function that carries state of its own.
      InvalidType: if one is not a pipeline, or a name of the dict is not a string.

    >>> list(rs.concatenate(rs.range(2), rs.range(7, 9)))
    [0, 1, 7, 8]
    """

    flow = Flow.JOINED
    identity: ClassVar[IdentityFields] = {"names": NAMES}
    _may_grow = True
    relies_on: ClassVar[Reliance] = ITEMS | PARTS  # ranks are at the same position in their items
    state_cost = SavedState("which input it is in")

    def __post_init__(self) -> None:
        super().__post_init__()
        for stage, _ in walk(self):
            if isinstance(stage, CallsFunction) and stage.carries_state:
                raise InvalidArgument(
                    "upstreams of Concatenate must not call functions with state of their own, "
                    f"since only the current upstream's state is saved; got {stage!r}"
                )

    @derived
    def length(self) -> Length:
        return self.total_length

    def _inputs_reached(self, count: float) -> Sequence[float]:
        reached, left = list[float](), count
        for length in self.lengths:
            reached.append(left if length is None else min(left, length + 1))  # and its end
            left = max(left - (length or 0), 0)
        return reached

    def _cannot_join(
        self, count: int, reach: Callable[[Callable[[Any], Any]], float]
    ) -> str | None:
        if reason := super()._cannot_join(count, reach):
            return reason

        def as_it_was(stage: Concatenate[T]) -> Concatenate[T]:
            names = stage.names and stage.names[:count]
            return replace(stage, upstreams=stage.upstreams[:count], names=names)

        reached, end = reach(as_it_was), as_it_was(self).length
        if reached < (math.inf if end is None else end):
            return None
        return (
            "the end of the inputs that there were may have been read, so none can follow them in this epoch any "
            "more"
        )

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _ConcatenateIterator(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[T] | None:
        inputs, lengths = self.indexed_upstreams(epoch), self.lengths[:-1]
        if inputs is None or math.inf in lengths:
            return None
        ends = np.cumsum(np.array(lengths, np.int64))
        starts = np.concatenate([[0], ends])

        def route(indices: Indices) -> tuple[Indices, Indices]:
            numbers = np.searchsorted(ends, indices, side="right")
            return numbers, indices - starts[numbers]

        return Indexed.chosen(
            inputs.__getitem__,
            route,
            indices_per_epoch=min(each.indices_per_epoch for each in inputs),
        )


class _ConcatenateIterator(MovesInBlocks[T], StageIterator[T]):
    _stage: Concatenate[T]

    # Invariant: only the current upstream is open.
    def __init__(self, stage: Concatenate[T], epoch: int) -> None:
        self._stage = stage
        self._epoch = epoch
        self._index = 0
        self._upstream: StageIterator[Any] = stage.upstreams[0].start(epoch)

    def pull(self, count: int) -> Block:
        blocks: list[Block] = []
        missing = count
        while missing:
            block = self._upstream.pull(missing)
            blocks.append(block)
            length = block_length(block)
            if length < missing:
                if self._index + 1 == len(self._stage.upstreams):
                    break
                self._enter(self._index + 1)
            missing -= length
        return concatenate(blocks)

    def items(self) -> Items[T]:
        return Items(chain.from_iterable(self._runs()))

    def _runs(self) -> Iterator[Iterable[T]]:
        """The items of each upstream."""
        yield self._upstream.items()
        while self._index + 1 < len(self._stage.upstreams):
            self._enter(self._index + 1)
            yield self._upstream.items()

    def blocks(self, size: int) -> Iterator[Block]:
        while self._index + 1 < len(self._stage.upstreams):
            rest: Block = []
            for block in blocks_of(self._upstream, size):
                if block_length(block) < size:
                    rest = block
                    break
                yield block
            self._enter(self._index + 1)
            if length := block_length(rest):
                completed = concatenate([rest, self.pull(size - length)])
                yield completed
                if block_length(completed) < size:
                    return
        yield from blocks_of(self._upstream, size)

    def skip(self, count: int) -> int:
        missing = count
        while missing:
            missing -= self._upstream.skip(missing)
            if missing:
                if self._index + 1 == len(self._stage.upstreams):
                    break
                self._enter(self._index + 1)
        return count - missing

    def _reached(self) -> Iterator[Reach]:
        before, after = (
            self._stage.upstreams[: self._index],
            self._stage.upstreams[self._index + 1 :],
        )
        yield from chain.from_iterable(map(reached_all, before))
        yield from self._upstream._reached()
        yield from chain.from_iterable(reached_by_index(one, 0) for one in after)
        # Of its own items it matters only whether the end may have been seen.
        yield Reach(self._stage, 0 if self.skip(1) else UNBOUNDED)

    def get_state(self) -> State:
        return {"index": self._index, "upstream": self._upstream.get_state()}

    def set_state(self, state: State) -> None:
        index, upstream = unpack(self._stage, state, "index", "upstream")
        most = len(self._stage.upstreams) - 1
        self._enter(unpack_count(self._stage, "index", index, most, f"upstreams[{most}]"))
        self._upstream.set_state(upstream)

    @property
    def inputs(self) -> Sequence[StageIterator[Any]]:
        return (self._upstream,)

    @property
    def epoch(self) -> int:
        return self._epoch

    def _enter(self, index: int) -> None:
        self._upstream.close()
        self._index = index
        self._upstream = self._stage.upstreams[index].start(self._epoch)
