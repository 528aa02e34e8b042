"""Rows planned from known lengths, before their documents are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..core.block import Block, Indices, block_items, concatenate
from ..core.position import Position
from ..core.stage import Stage
from ..core.stage_iterator import Items, SourceIterator
from ..errors import MalformedItem, StateMismatch, shorten
from ..state.value import State, unpack, unpack_count
from .documents import Documents
from .motion import NumberedBlocks
from .row_format import RowFormat
from .rows import Columns
from .segments import Segments


class Plan(NamedTuple):
    """The documents in each row of a group.

    Attributes:
      segments: of the documents, in the order of their rows.
      bounds: the first segment of each row, and the end of the last row, shape (rows + 1,).
      lengths: of the documents of the group, shape (documents, capacities).
    """

    segments: Segments
    bounds: Indices
    lengths: Indices

    @classmethod
    def of(cls, segments: Segments, rows: Indices, lengths: Indices) -> Plan:
        """The plan of ``segments`` in the rows with these numbers, shape (segments,)."""
        placed, bounds = segments.by_row(rows, int(rows.max(initial=-1)) + 1)
        return cls(placed, bounds, lengths)

    def rows(self, start: int, stop: int) -> Iterator[tuple[Indices, Segments]]:
        """For each row from ``start`` to ``stop`` the numbers of its documents, and their segments.

        The numbers count in the group and ascend, shape (documents,); the segments number the
        documents of the row from 0.
        """
        for begin, end in pairwise(self.bounds[start : stop + 1].tolist()):
            chosen = self.segments.chosen(np.arange(begin, end))
            numbers, places = np.unique(chosen.numbers, return_inverse=True)
            yield numbers, chosen._replace(numbers=places)

    def check(self, numbers: Indices, documents: Documents) -> None:
        """Refuse documents, with ``numbers`` of shape (n,), whose lengths differ from the plan."""
        if not np.array_equal(documents.lengths, self.lengths[numbers]):
            raise MalformedItem(
                "documents must have as many tokens as lengths says, "
                f"{shorten(self.lengths[numbers].tolist())}, got {shorten(documents.lengths.tolist())}"
            )


class PlannedIterator(NumberedBlocks[Columns], SourceIterator[Columns]):
    """Walk the rows of one plan after another.

    State: O(1), the number of the group and an offset in its rows.

    Args:
      stage: the iterated stage.
      epoch: the epoch of the rows.
      groups: number of groups.
      plan: makes the plan of the group with a number.
      made: makes the rows of a plan from a start to a stop; the last argument is the number of the
        group.
    """

    def __init__(
        self,
        stage: Stage[Any],
        epoch: int,
        groups: int,
        plan: Callable[[int], Plan],
        made: Callable[[Plan, int, int, int], Block],
    ) -> None:
        NumberedBlocks.__init__(self, stage, Position())
        SourceIterator.__init__(self, stage, epoch)
        self._groups = groups
        self._plan = plan
        self._made = made

    outputs = "rows of this group; are the lengths the same in every run?"

    def pull(self, count: int) -> Block:
        return concatenate([self._made(*part) for part in self._parts_of_groups(count)])

    def items(self) -> Items[Columns]:
        return Items(self._one_by_one())

    def _one_by_one(self) -> Iterator[Columns]:
        while block := self.pull(1):
            yield from block_items(block)

    def _parts_of_groups(self, count: int) -> Iterator[tuple[Plan, int, int, int]]:
        """As `_parts`, each with the number of its group."""
        while count and self._open():
            group = self._group
            plan, start, stop = next(self._parts(count))
            count -= stop - start
            yield plan, start, stop, group

    def _next_block(self) -> tuple[Plan, int] | None:
        if self._group < self._groups:
            plan = self._plan(self._group)
            return plan, len(plan.bounds) - 1
        if self._offset.number or self._group > self._groups:
            raise StateMismatch(
                f"saved group={self._group} lies beyond the last of {self._groups}; did the data "
                "shrink since the save?",
                self._stage,
            )
        return None

    def get_state(self) -> State:
        return {"group": self._group, "offset": self._offset.number}

    def set_state(self, state: State) -> None:
        group, offset = unpack(self._stage, state, "group", "offset")
        self._group = unpack_count(self._stage, "group", group)
        self._offset.move_to(unpack_count(self._stage, "offset", offset))


def lengths_of(block: Block, form: RowFormat) -> Indices:
    """The lengths of documents given by ``block``, shape (n, capacities).

    Args:
      block: items are integers, or dicts of integers if fields have separate capacities.
      form: of the rows.

    Raises:
      MalformedItem: if an item is something else.
    """
    items = block_items(block)
    try:
        if form.fields is None:
            found = np.array(items).reshape(-1, 1)
        else:
            found = np.array([[item[name] for name in form.fields] for item in items])
    except (TypeError, KeyError, ValueError, IndexError):
        raise _no_lengths(items) from None
    if (
        found.shape != (len(items), len(form.capacities))
        or found.dtype.kind not in "iu"
        or found.min() < 0
    ):
        raise _no_lengths(items)
    return found.astype(np.int64)


def _no_lengths(items: list[Any]) -> MalformedItem:
    return MalformedItem(
        "lengths must be integers of at least 0, or dicts of them with the fields of length, got "
        f"{shorten(items)}"
    )
