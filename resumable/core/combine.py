"""The base of stages with several upstreams, and of their iterators."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain, islice
from typing import Any, Final, TypeVar

import numpy as np

from ..errors import InvalidArgument, StateMismatch, shorten
from ..state.value import State, unpack
from .arguments import check_type
from .block import Block, Indices, block_length, concatenate, ungroup
from .computed_once import computed_once
from .identity import ALWAYS, IdentityField
from .layout import LISTS
from .lookup import IndexedIterator
from .orders import MOST_ITEMS, Length
from .prepared_items import grouped
from .records import Records
from .saved_state import SavedState
from .stage import Stage, as_stage
from .stage_iterator import Items, StageIterator, in_blocks, pulled_blocks

T = TypeVar("T")

FEW_TURNS: Final = 64
TURNS_AHEAD: Final = 1024
PLANNED_AT_ONCE: Final = 1 << 16
"""Turns planned at once: memory grows with the remaining items, not with the number asked for."""
# Follows the last turn of a run and has no item. So the end of a run differs from the end of the
# upstream at the same turn.
NO_ITEMS: Final[Iterator[Any]] = iter(())
UNPLANNED: Final[Any] = iter([NO_ITEMS])

NAMES: Final = IdentityField(
    ALWAYS,
    shown_as="names of pipelines",
    hint="were inputs renamed, added, removed or put in another order?",
)


@dataclass(frozen=True, eq=False, repr=False)
class Combine(Stage[T]):
    """A stage with several upstreams.

    Args:
      upstreams: one or more.
      names: one for each upstream, all different, or None. If ``identity`` has this field, as in
        all stages of the library, a resume refuses other names and another order of names.
    """

    @property
    def state_cost(self) -> SavedState:
        return SavedState("not stated", levels=2)

    upstreams: tuple[Stage[Any], ...]
    _: KW_ONLY
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        stages = tuple(
            as_stage(upstream, f"upstreams[{number}]")
            for number, upstream in enumerate(self.upstreams)
        )
        if not stages:
            raise InvalidArgument(f"{type(self).__name__} needs at least one upstream, got none")
        object.__setattr__(self, "upstreams", stages)
        if self.names is not None:
            object.__setattr__(self, "names", _checked_names(self.names, len(stages)))
        total = sum(n for n in self.lengths if n is not None and n != math.inf)
        if total > MOST_ITEMS:
            raise InvalidArgument(f"upstreams must have at most 2**62 items together, got {total}")
        super().__post_init__()

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return self.upstreams

    def _with_inputs(self, inputs: tuple[Stage[Any], ...]) -> Stage[T]:
        return replace(self, upstreams=inputs)

    @computed_once
    def lengths(self) -> tuple[Length, ...]:
        """The length of each upstream."""
        return tuple(upstream.length for upstream in self.upstreams)

    @property
    def total_length(self) -> Length:
        """Number of items of all upstreams together; None if any length is unknown."""
        known = [length for length in self.lengths if length is not None]
        return sum(known) if len(known) == len(self.upstreams) else None

    def _records_of_inputs(self, records: Records) -> Sequence[Records]:
        named = records.of_names(self.names, type(self).__name__)
        return [named[name] for name in self.names or ()] or [Records.NONE] * len(self.inputs)


def joins_inputs(stage: Stage[Any]) -> bool:
    """Whether each item of ``stage`` is an item of one of several inputs, with names or numbers."""
    return isinstance(stage, Combine) and stage.unchanged


def _checked_names(names: Any, count: int) -> tuple[str, ...]:
    for name in names:
        check_type("names of upstreams", name, str, "strings")
    if len(set(names)) != count or len(names) != count:
        raise InvalidArgument(
            f"names must be one for each of {count} upstreams, all different, got {shorten(names)}"
        )
    return tuple(names)


class CombineIterator(StageIterator[T]):
    """Motion of a stage with several upstreams and without a separate position.

    Args:
      stage: the stage being iterated.
      epoch: the epoch in which the upstreams are started too.
      reads: the stages to read from, by default the inputs of ``stage``.
    """

    _stage: Stage[Any]

    def __init__(
        self, stage: Stage[T], epoch: int, reads: Sequence[Stage[Any]] | None = None
    ) -> None:
        self._stage = stage
        self._upstreams: Sequence[StageIterator[Any]] = [
            self._started(upstream, epoch)
            for upstream in (stage.inputs if reads is None else reads)
        ]

    def _started(self, upstream: Stage[Any], epoch: int) -> StageIterator[Any]:
        return upstream.start(epoch)

    @property
    def inputs(self) -> Sequence[StageIterator[Any]]:
        return self._upstreams

    def get_state(self) -> State:
        return {"upstreams": self.upstream_states()}

    def set_state(self, state: State) -> None:
        (states,) = unpack(self._stage, state, "upstreams")
        self.set_upstream_states(states)

    def upstream_states(self) -> list[State]:
        """The states of all upstreams."""
        return [upstream.get_state() for upstream in self._upstreams]

    def set_upstream_states(self, states: Any) -> None:
        """Move all upstreams to ``states``."""
        self.check_list("upstreams", states)
        for upstream, state in zip(self._upstreams, states, strict=True):
            upstream.set_state(state)

    def check_list(self, name: str, values: Any) -> None:
        """Refuse ``values`` unless a list with one entry for each upstream."""
        if not isinstance(values, list) or len(values) != len(self._upstreams):
            raise StateMismatch(
                f"saved {name} must be a list of {len(self._upstreams)} entries", self._stage
            )

    def check_flags(self, name: str, values: Any) -> list[bool]:
        """A copy of ``values``, refused unless a list of one bool for each upstream."""
        self.check_list(name, values)
        if not all(isinstance(value, bool) for value in values):
            raise StateMismatch(f"saved {name} must be bools, got {shorten(values)}", self._stage)
        return list(values)


class TurnsIterator(CombineIterator[T]):
    """Motion of a stage whose upstreams take turns, until the upstreams have ended.

    A subclass plans turns. Items are taken one by one without Python code; the position follows
    from the number of planned turns already taken.
    """

    def __init__(
        self, stage: Stage[T], epoch: int, reads: Sequence[Stage[Any]] | None = None
    ) -> None:
        super().__init__(stage, epoch, reads)
        self._ended = [False] * len(self._upstreams)
        # The upstreams of the turns that are taken item by item.
        self._numbers: list[int] = []
        self._left: Callable[[], int] = UNPLANNED.__length_hint__

    def items(self) -> Items[T]:
        return Items(chain.from_iterable(self._runs(TURNS_AHEAD)))

    def pull(self, count: int) -> Block:
        blocks: list[Block] = []
        missing = count
        while missing:
            self._stop()
            numbers = self._plan(min(missing, PLANNED_AT_ONCE))
            if not len(numbers):
                break
            block, there = self.pull_each(numbers)
            if len(there):
                self._advance_those(numbers, there)
            blocks.append(block)
            if wanted := len(numbers) - len(there):
                blocks.append(list(islice(self.items(), wanted)))
                if len(blocks[-1]) < wanted:
                    break
            missing -= len(numbers)
        return concatenate(blocks)

    def turn_blocks(self, size: int) -> Iterator[Block]:
        """The remaining items in blocks of ``size``, where at least one upstream is a stream.

        If all upstreams are streams of Python objects, taking each item from its upstream costs
        less than asking each upstream for its part of every block, and sorting the parts into one
        block.
        """
        singly = self._stage.block_layout is LISTS and not any(
            isinstance(upstream, IndexedIterator) for upstream in self._upstreams
        )
        return in_blocks(self.items(), size) if singly else pulled_blocks(self, size)

    @abstractmethod
    def _plan(self, count: int) -> Indices:
        """The upstreams of up to ``count`` of the next turns; empty only at the end."""

    @abstractmethod
    def _advance_those(self, numbers: Indices, there: Indices) -> None:
        """Move the position past the items of ``numbers``, just planned, that `pull_each` found."""

    @abstractmethod
    def _advance_turns(self, count: int) -> None:
        """Move the position past ``count`` of the turns in the last plan."""

    @abstractmethod
    def _advance_past_end(self, place: int) -> bool:
        """Note the end of the upstream of turn ``place`` of the plan; whether turns follow."""

    @property
    def being_read(self) -> Sequence[StageIterator[Any]]:
        """The upstreams that may have raised the last error from this iterator."""
        left = self._left()
        if not self._numbers or not 0 < left <= len(self._numbers):
            return self.inputs
        return [self._upstreams[self._numbers[len(self._numbers) - left]]]

    @property
    def _taken(self) -> int:
        """How many turns of the last plan have given an item."""
        return len(self._numbers) + 1 - (self._left() or 1)

    def _stop(self) -> None:
        """Move the position past the turns taken, and forget the plan."""
        self._advance_turns(self._taken)
        self._numbers, self._left = [], UNPLANNED.__length_hint__

    def _runs(self, most: int) -> Iterator[Iterator[T]]:
        """An item for each of the next turns, in runs of up to ``most``."""
        self._stop()
        upstreams = [iter(upstream.items()) for upstream in self._upstreams]
        count = min(FEW_TURNS, most)
        while numbers := self._plan(count).tolist():
            cursor: Any = iter([*map(upstreams.__getitem__, numbers), NO_ITEMS])
            self._numbers, self._left = numbers, cursor.__length_hint__
            yield map(next, cursor)
            left = self._left()
            if not left:
                self._stop()
                count = min(2 * count, most)
                continue
            number = numbers[len(numbers) - left]
            goes_on = self._advance_past_end(len(numbers) - left)
            self._numbers, self._left = [], UNPLANNED.__length_hint__
            if not goes_on:
                return
            upstreams[number] = iter(self._upstreams[number].items())  # maybe restarted
            count = min(FEW_TURNS, most)

    def pull_each(self, numbers: Indices) -> tuple[Block, Indices]:
        """The next item of upstream ``numbers[i]`` for each i, unless the upstream has ended.

        An upstream without an item for its turn is marked as ended only if a later turn has an
        item. A loop that takes one item at a time notices the same ends, up to its last item.

        Args:
          numbers: numbers of upstreams, shape (n,).

        Returns:
          the items in the order of ``numbers``; and the index in ``numbers`` of each, ascending.
        """
        blocks: list[Block] = []

        def pull(upstream: StageIterator[Any], count: int) -> int:
            blocks.append(upstream.pull(count))
            return block_length(blocks[-1])

        there, order = self._moved_each(numbers, pull)
        if len(there) == len(numbers):
            return ungroup(blocks, order), there
        return ungroup(blocks, np.argsort(np.argsort(order))), there

    def skip_each(self, numbers: Indices) -> Indices:
        """Pass over the items that `pull_each` would return.

        Args:
          numbers: numbers of upstreams, shape (n,).

        Returns:
          the index in ``numbers`` of each item, ascending.
        """
        return self._moved_each(numbers, lambda upstream, count: upstream.skip(count))[0]

    def _moved_each(
        self, numbers: Indices, move: Callable[[StageIterator[Any], int], int]
    ) -> tuple[Indices, Indices]:
        """Let ``move`` take the items of each upstream in ``numbers``, and mark ended upstreams.

        Args:
          numbers: numbers of upstreams, shape (n,).
          move: takes up to a number of items of an upstream, and returns how many were found.

        Returns:
          the index in ``numbers`` of each item taken, ascending; and the same indices in the order
          of taking.
        """
        order, groups = grouped(numbers)
        places, missing = [], {}
        for number, first, last in groups:
            moved = move(self._upstreams[number], last - first)
            places.append(order[first : first + moved])
            if moved < last - first:
                missing[number] = int(order[first + moved])
        if not missing:
            return np.arange(len(numbers)), order
        taken = np.concatenate(places)
        there = np.sort(taken)
        for number, place in missing.items():
            self._ended[number] = bool(len(there)) and place < int(there[-1])
        return there, taken
