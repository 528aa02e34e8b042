"""Chain pipelines, one after another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Final, TypeVar, final

import numpy as np

from ..core import (
    ITEMS,
    PARTS,
    Block,
    Combine,
    Dependence,
    IdentityFields,
    Indices,
    Items,
    Length,
    Relation,
    Routed,
    SavedState,
    StageIterator,
    block_length,
    computed_once,
)
from ..core.block import concatenate
from ..core.combine import NAMES
from ..core.function_state import calling_with_state
from ..core.reach import Reach, reached_by_index, reached_in_epoch
from ..core.records import Records
from ..core.run_changes import RunChanges
from ..core.timeline import UNBOUNDED
from ..errors import InvalidArgument
from ..state.value import State, unpack, unpack_count

T = TypeVar("T")


class _ConcatenateChanges(RunChanges):
    def may_grow(self, stage: Any) -> bool:
        return True

    def cannot_join(self, stage: Any, count: int) -> str | None:
        if all(one.random_access for one in stage.upstreams) and not stage.random_access:
            endless = stage.upstreams[stage.lengths.index(math.inf)]
            return f"only the last input can be endless, got {endless!r}"
        return super().cannot_join(stage, count)

    def without_joined(self, stage: Any, count: int) -> Any:
        names = stage.names and stage.names[:count]
        return replace(stage, upstreams=stage.upstreams[:count], names=names)


INPUTS_MAY_FOLLOW: Final = _ConcatenateChanges()


@final
@dataclass(frozen=True, eq=False, repr=False)
class Concatenate(Combine[T]):
    """All items of the first upstream, then all of the second, and so on.

    State: O(1), the number of the current upstream, and the state of this upstream. Random access
    if all upstreams have random access and all but the last are finite. At a resume, further
    upstreams may be appended, unless the end of the earlier upstreams was reached.

    Args:
      upstreams: one or more pipelines, or a dict of pipelines.

    Raises:
      InvalidArgument: without upstreams, if all have more than 2**62 items together, or if one
        calls a function that carries state.
      InvalidType: if an upstream is not a pipeline, or a name of the dict is not a string.

    >>> list(rs.concatenate(rs.range(2), rs.range(7, 9)))
    [0, 1, 7, 8]
    """

    identity: ClassVar[IdentityFields] = {"names": NAMES}
    _run_changes = INPUTS_MAY_FOLLOW
    # Ranks are at the same position in their items.
    depends_on: ClassVar[Dependence] = ITEMS | PARTS
    state_cost = SavedState("which input it is in")

    def __post_init__(self) -> None:
        super().__post_init__()
        for stage in calling_with_state(self):
            raise InvalidArgument(
                "upstreams of Concatenate must not call functions with state of their own, "
                f"since only the current upstream's state is saved; got {stage!r}"
            )

    def relation(self, epoch: int) -> Relation:
        return Routed(
            self,
            epoch,
            total=lambda: self.total_length,
            turns=lambda: self._sections,
            in_order=math.inf in self.lengths[:-1],
        )

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _ConcatenateIterator(self, epoch)

    @computed_once
    def _sections(self) -> _Sections:
        return _Sections(self.lengths)

    def _records_of_inputs(self, records: Records) -> Sequence[Records]:
        if not len(records.numbers):
            return super()._records_of_inputs(records)
        # Numbers continue from input to input.
        return records.by_source(self._sections.starts.tolist())


class _Sections:
    """Turns of inputs in sequence, each begun at the end of the previous input.

    Args:
      lengths: of the inputs.
    """

    def __init__(self, lengths: Sequence[Length]) -> None:
        self._lengths = lengths

    @cached_property
    def starts(self) -> Indices:
        """The index of the first item of each input, if all but the last are finite; shape (inputs,)."""
        return np.cumsum(np.array([0, *self._lengths[:-1]], np.int64))

    def items_of(self, outputs: Indices) -> tuple[Indices, Indices]:
        """As `TurnOrder.items_of`; all of shape (n,)."""
        numbers = np.searchsorted(self.starts[1:], outputs, side="right")
        return numbers, outputs - self.starts[numbers]

    def turns_before(self, count: int) -> Sequence[int | float]:
        """As `TurnOrder.turns_before`."""
        found = list[float]()
        left: float = count
        for length in self._lengths:
            found.append(left if length is None else min(left, length + 1))
            left = max(left - (length or 0), 0)
        return found

    def turn_of(self, number: int, item: int) -> int:
        """As `TurnOrder.turn_of`."""
        return int(self.starts[number]) + item


class _ConcatenateIterator(StageIterator[T]):
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
            if length < missing and not self._enter_next():
                break
            missing -= length
        return concatenate(blocks)

    def items(self) -> Items[T]:
        return Items(chain.from_iterable(self._runs()))

    def _runs(self) -> Iterator[Iterable[T]]:
        """The items of each upstream."""
        yield self._upstream.items()
        while self._enter_next():
            yield self._upstream.items()

    def blocks(self, size: int) -> Iterator[Block]:
        while self._index + 1 < len(self._stage.upstreams):
            rest: Block = []
            for block in self._upstream.blocks(size):
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
        yield from self._upstream.blocks(size)

    def skip(self, count: int) -> int:
        missing = count
        while missing:
            missing -= self._upstream.skip(missing)
            if missing and not self._enter_next():
                break
        return count - missing

    def _reached(self) -> Iterator[Reach]:
        upstreams, index = self._stage.upstreams, self._index
        state = self._upstream.get_state()
        # Among the stage's own items, only the end matters: whether it may have been seen.
        yield Reach(self._stage, 0 if self.skip(1) else UNBOUNDED)
        yield from chain.from_iterable(map(reached_in_epoch, upstreams[:index]))
        with closing(upstreams[index].start(self._epoch)) as here:
            here.set_state(state)
            yield from here._reached()
        yield from chain.from_iterable(reached_by_index(one, 0) for one in upstreams[index + 1 :])

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
    def _first_input(self) -> int:  # type: ignore[override]
        return self._index

    @property
    def _items_delivered(self) -> int | None:
        before, inner = self._stage.lengths[: self._index], self._upstream._items_delivered
        return None if inner is None or None in before else int(sum(before)) + inner  # type: ignore[arg-type]

    def _given_by_inputs(self, ahead: int) -> Sequence[float | None]:
        if ahead:
            return []
        lengths = self._stage.lengths
        return [
            *lengths[: self._index],
            self._upstream._items_delivered,
            *[0] * (len(lengths) - self._index - 1),
        ]

    @property
    def epoch(self) -> int:
        return self._epoch

    def _enter_next(self) -> bool:
        """Go on to the next upstream; False after the last."""
        if self._index + 1 == len(self._stage.upstreams):
            return False
        self._enter(self._index + 1)
        return True

    def _enter(self, index: int) -> None:
        self._upstream.close()
        self._index = index
        self._upstream = self._stage.upstreams[index].start(self._epoch)
