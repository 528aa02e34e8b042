"""One pipeline after another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np

from ..core.block import Block, Indices, block_length, concatenate, ungroup
from ..core.combine import Combine
from ..core.graph import walk
from ..core.stage_iterator import StageIterator
from ..errors import InvalidArgument
from ..state.value import State, unpack, unpack_count

__all__ = ["Concatenate"]

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Concatenate(Combine[T]):
    """All items of the first upstream, then those of the second, and so on.

    State: O(1), which upstream it is in and that one's state. Random access if all upstreams
    have it and all but the last are finite.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for stage, _ in walk(self):
            if stage.carries_state:
                raise InvalidArgument(
                    "upstreams of Concatenate must not call functions with state of their own, "
                    f"since only the current one's is saved; got {stage!r}"
                )

    @property
    def random_access(self) -> bool:
        finite = all(upstream.length != math.inf for upstream in self.upstreams[:-1])
        return finite and super().random_access

    @property
    def length(self) -> int | float | None:
        total: int | float = 0
        for upstream in self.upstreams:
            if upstream.length is None:
                return None
            total += upstream.length
        return total

    @property
    def state_cost(self) -> str:
        return "which input it is in"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _ConcatenateIterator(self, epoch)

    def gather(self, indices: Indices, epoch: int = 0) -> Block:
        ends = np.cumsum([len(upstream) for upstream in self.upstreams[:-1]], dtype=np.int64)
        numbers = np.searchsorted(ends, indices, side="right")
        distinct = np.unique(numbers).tolist()
        blocks = []
        for number in distinct:
            start = int(ends[number - 1]) if number else 0
            within = indices[numbers == number] - start
            blocks.append(self.upstreams[number].gather(within, epoch))
        return ungroup(blocks, numbers)


class _ConcatenateIterator(StageIterator[T]):
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

    def skip(self, count: int) -> int:
        missing = count
        while missing:
            missing -= self._upstream.skip(missing)
            if missing:
                if self._index + 1 == len(self._stage.upstreams):
                    break
                self._enter(self._index + 1)
        return count - missing

    def get_state(self) -> State:
        return {"index": self._index, "upstream": self._upstream.get_state()}

    def set_state(self, state: State) -> None:
        index, upstream = unpack(self._stage, state, "index", "upstream")
        most = len(self._stage.upstreams) - 1
        self._enter(unpack_count(self._stage, "index", index, most, f"upstreams[{most}]"))
        self._upstream.set_state(upstream)

    def settle(self) -> None:
        self._upstream.settle()

    def close(self) -> None:
        self._upstream.close()

    @property
    def epoch(self) -> int:
        return self._epoch

    def _enter(self, index: int) -> None:
        self._upstream.close()
        self._index = index
        self._upstream = self._stage.upstreams[index].start(self._epoch)
