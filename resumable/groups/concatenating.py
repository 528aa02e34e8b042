"""Motion through one stream of documents, cut into rows wherever a row is full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.block import Block, Indices, block_length
from ..core.position import Position
from ..core.stage import Stage
from ..core.stage_iterator import DeferredState, StageIterator, state_deferrer
from ..errors import StateMismatch, shorten
from ..state.value import State, unpack, unpack_count
from .cutting import CutRows, cut_rows
from .documents import Documents
from .motion import BlockIterator
from .row_format import RowFormat
from .rows import Columns
from .token_run import TokenRun


class _OpenGroup(NamedTuple):
    """A group of documents with tokens not handed out yet.

    Attributes:
      before: the state before the group.
      first: number of tokens before the group, shape (capacities,).
      number: number of documents before the group in this epoch.
    """

    before: DeferredState
    first: Indices
    number: int


class ConcatenatingIterator(BlockIterator[Columns]):
    """Rows of one stream of documents, each begun where the previous row ended.

    State: O(1), the state of ``groups`` before the group in which the next row begins, and the
    number of tokens of the group before the row: a number, or a list with a number for each
    capacity if a row has several. If rows have the numbers of documents, also the number of
    documents before the group.

    Args:
      stage: the iterated stage.
      groups: delivers the blocks of documents.
      documents: turns a block into `Documents`.
      form: of the rows.
      rows: makes a block of rows from documents and their segments in each row; the last argument
        says whether the row is the incomplete last row of the epoch.
    """

    def __init__(
        self,
        stage: Stage[Any],
        groups: StageIterator[Block],
        documents: Callable[[Block], Documents],
        form: RowFormat,
        rows: Callable[[Documents, CutRows, bool], Block],
    ) -> None:
        super().__init__(stage, Position())
        self._groups = groups
        self._note_groups = state_deferrer(groups)
        self._documents = documents
        self._form = form
        self._rows = rows
        # Tokens are counted from the first token read here, separately for each capacity. `_start`
        # is the count before `_block`, or before the next block; `_ends` has the counts at the end
        # of each row of `_block`. `_run` has the tokens after `_block`, up to `_read`.
        self._start = np.zeros(len(form.capacities), np.int64)
        self._ends = np.empty((0, len(form.capacities)), np.int64)
        self._read = np.zeros_like(self._start)
        self._run = TokenRun(len(form.capacities))
        self._held: list[_OpenGroup] = []
        self._ended = False
        self._count = 0  # documents read in this epoch

    @property
    def inputs(self) -> Sequence[StageIterator[Any]]:
        return (self._groups,)

    def _open(self) -> bool:
        while self._block is None:
            if not self._make(last=False):
                if not self._ended:
                    self._read_group()
                elif not self._make(last=True):
                    return False
        return True

    def _make(self, *, last: bool) -> bool:
        """Make a block of the full rows, or of the last row; False without such rows."""
        documents = self._run.documents
        cut = cut_rows(documents.lengths, self._form, last=last)
        if not len(cut.ends):
            return False
        made = self._rows(documents, cut, last)
        self._run.drop(cut.ends[-1])
        if length := block_length(made):
            self._block, self._length = made, length
            self._ends = self._start + cut.ends
        return True

    def _read_group(self) -> None:
        before = self._note_groups()
        found = self._groups.pull(1)
        if not found:
            self._ended = True
            if (self._start > self._read).any():
                raise StateMismatch(
                    f"saved offset={_shown(self._start)} lies beyond the last {_shown(self._read)} tokens; "
                    "did the data shrink since the save?",
                    self._stage,
                )
            return
        documents = self._documents(found[0])
        if self._form.parts:
            documents = documents.numbered_from(self._count, self._stage)
        self._run.append(documents)
        self._held.append(_OpenGroup(before, self._read, self._count))
        self._count += block_length(found[0])
        self._read = self._read + documents.lengths.sum(axis=0)
        # After a resume, the first tokens were handed out before.
        self._run.drop(np.maximum(self._start - (self._read - self._run.tokens), 0))
        self._forget()

    def _leave(self) -> None:
        self._start = self._ends[-1]
        self._block = None
        self._offset.move_to(0)
        self._forget()

    def _forget(self) -> None:
        """Drop the groups that end before the next row."""
        while len(self._held) > 1 and (self._held[1].first <= self._start).all():
            del self._held[0]

    @property
    def _items_held(self) -> int:
        return int(self._start.any())

    def get_state(self) -> State:
        offset = self._offset.number
        place = self._ends[offset - 1] if offset else self._start
        if (place >= self._read).all():
            tokens, upstream = place - self._read, self._groups.get_state()
            number = self._count
        else:
            held = next(held for held in reversed(self._held) if (held.first <= place).all())
            tokens, upstream, number = place - held.first, held.before(), held.number
        state: State = {"offset": _shown(tokens), "upstream": upstream}
        return {"documents": number, **state} if self._form.parts else state

    def set_state(self, state: State) -> None:
        if self._form.parts:
            number, offset, upstream = unpack(self._stage, state, "documents", "offset", "upstream")
            self._count = unpack_count(self._stage, "documents", number)
        else:
            offset, upstream = unpack(self._stage, state, "offset", "upstream")
        count = len(self._form.capacities)
        offsets = offset if count > 1 else [offset]
        if not isinstance(offsets, list) or len(offsets) != count:
            raise StateMismatch(
                f"offset must have a number for each of {count} fields, got {shorten(offset)}",
                self._stage,
            )
        for each in offsets:
            unpack_count(self._stage, "offset", each)
        self._start = np.array(offsets, np.int64)
        self._groups.set_state(upstream)


def _shown(counts: Indices) -> Any:
    """The numbers of ``counts``; a single count as a number."""
    numbers = counts.tolist()
    return numbers if len(numbers) > 1 else numbers[0]
