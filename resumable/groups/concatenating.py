"""Motion through one stream of tokens, cut into rows wherever one is full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..core.block import Block, block_length
from ..core.reach import Reach
from ..core.stage import Stage
from ..core.stage_iterator import DeferredState, StageIterator, state_deferrer
from ..errors import StateMismatch
from ..state.value import State, unpack, unpack_count
from .documents import Documents
from .motion import BlockIterator
from .packing import Columns
from .token_run import TokenRun


class _Held(NamedTuple):
    """A group of documents some of whose tokens were not handed out yet.

    Attributes:
      before: the state before it.
      first: the number of its first token.
    """

    before: DeferredState
    first: int


class ConcatenatingIterator(BlockIterator[Columns]):
    """Rows of ``length`` tokens, each of which begins where the one before ends.

    State: O(1), that of ``groups`` before the group in which the next row begins, and how many of
    its tokens come before that row.

    Args:
      stage: whose motion it is.
      groups: delivers the blocks of documents.
      documents: of a block.
      length: of a row.
      last: makes a block of at most one row of the tokens at the end, shape (1, fewer than ``length``).
    """

    def __init__(
        self,
        stage: Stage[Any],
        groups: StageIterator[Block],
        documents: Callable[[Block], Documents],
        length: int,
        last: Callable[[Columns], Block],
    ) -> None:
        self._stage = stage
        self._groups = groups
        self._note_groups = state_deferrer(groups)
        self._documents = documents
        self._row = length
        self._last = last
        # Tokens are numbered from the first one read here. `_start` is the first token in `_block`,
        # or of the next one; `_run` has the tokens after `_block`, up to `_read`.
        self._start = 0
        self._read = 0
        self._run = TokenRun()
        self._held: list[_Held] = []
        self._ended = False

    @property
    def inputs(self) -> Sequence[StageIterator[Any]]:
        return (self._groups,)

    def _open(self) -> bool:
        while self._block is None:
            if len(self._run) >= self._row:
                count = len(self._run) // self._row
                made: Block = self._run.rows(count, self._row)
                self._run.drop(count * self._row)
            elif not self._ended:
                self._read_group()
                continue
            elif len(self._run):
                made = self._last(self._run.rows(1, len(self._run)))
                self._run = TokenRun()
            else:
                return False
            if length := block_length(made):
                self._block, self._length = made, length
        return True

    def _read_group(self) -> None:
        before = self._note_groups()
        found = self._groups.pull(1)
        if not found:
            self._ended = True
            if self._start > self._read:
                raise StateMismatch(
                    f"saved offset={self._start} lies beyond the last {self._read} tokens; did the "
                    "data shrink since the save?",
                    self._stage,
                )
            return
        documents = self._documents(found[0])
        self._run.append(documents)
        self._held.append(_Held(before, self._read))
        self._read += int(documents.lengths.sum())
        # After a resume, the first ones were handed out before.
        self._run.drop(max(self._start - (self._read - len(self._run)), 0))
        self._forget()

    def _leave(self) -> None:
        self._start = min(self._start + self._length * self._row, self._read)
        self._block, self._offset = None, 0
        self._forget()

    def _forget(self) -> None:
        """Let the groups go that end before the next row."""
        while len(self._held) > 1 and self._held[1].first <= self._start:
            del self._held[0]

    def _reached(self) -> Iterator[Reach]:
        self._groups.skip(self._start > 0)
        return self._groups._reached()

    def get_state(self) -> State:
        place = self._start + self._offset * self._row
        if place >= self._read:
            return {"offset": place - self._read, "upstream": self._groups.get_state()}
        held = next(held for held in reversed(self._held) if held.first <= place)
        return {"offset": place - held.first, "upstream": held.before()}

    def set_state(self, state: State) -> None:
        offset, upstream = unpack(self._stage, state, "offset", "upstream")
        self._start = unpack_count(self._stage, "offset", offset)
        self._groups.set_state(upstream)
