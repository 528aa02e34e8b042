"""Upstream's state before an item, and an offset in the outputs that a stage makes of the item."""

# A stage that makes several outputs of an item saves no outputs: a resume reads the item again,
# makes the outputs again, and skips the outputs already handed out. The item may be a batch, or a
# group of items.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from operator import length_hint
from typing import Any, Final, final

from ..errors import StateMismatch
from ..state.value import State, unpack_count
from .block import Block
from .position import Position
from .stage_iterator import DeferredState, StageIterator, state_deferrer

END: Final = object()


@final
class ReplayPoint:
    """The place where a resume starts to read again, and the number of outputs to skip there.

    Args:
      stage: makes the outputs; named in errors.
      upstream: the iterator to read items from.

    Attributes:
      offset: number of outputs of the current item handed out, unless ``rows`` is set; without a
        current item, number of outputs of the next item to skip.
      rows: the outputs of the current item, if the outputs are a list or a tuple walked from the
        start.
      outputs: the iterator over the remaining outputs of the current item, if the stage has such an
        iterator.
      noted: the state before the last item read.
      before: the state before the current item; None without a current item.
    """

    def __init__(self, stage: object, upstream: StageIterator[Any]) -> None:
        self.offset = Position()
        self.rows: Sequence[Any] | None = None
        self.outputs: Iterator[Any] | None = None
        self.noted: DeferredState | None = None
        self.before: DeferredState | None = None
        self._stage = stage
        self._upstream = upstream
        self._note_upstream = state_deferrer(upstream)

    @property
    def number(self) -> int:
        """Number of outputs handed out, or to be skipped."""
        if self.rows is None:
            return self.offset.number
        return len(self.rows) - length_hint(self.outputs)

    def next_block(self) -> Block:
        """The next upstream item in a block; empty at the end. Sets ``noted`` before reading."""
        self.noted = self._note_upstream()
        return self._upstream.pull(1)

    def upstream_items(self) -> Iterator[Any]:
        """The items of upstream; at each item, ``noted`` is the state before the item."""
        return chain.from_iterable(self._noted_items())

    def _noted_items(self) -> Iterator[Iterator[Any]]:
        """The first item, then the other items."""
        upstream = iter(self._upstream.items())
        self.noted = self._note_upstream()
        for first in upstream:
            # States need not be noted where upstream knows the state before its last item.
            knows_state = self._upstream.state_at(-1) is not None
            if knows_state:
                self.noted = partial(_state_before_last, self._upstream)
            yield iter((first,))
            yield upstream if knows_state else self._noting(upstream)

    def _noting(self, upstream: Iterator[Any]) -> Iterator[Any]:
        self.noted = self._note_upstream()
        for item in upstream:
            yield item
            self.noted = self._note_upstream()

    def enter(self) -> None:
        """Make the last item read the current item."""
        self.before = self.noted

    def stop_walking(self) -> None:
        """Let ``offset`` count outputs handed out; a caller moving in blocks may raise `end`."""
        self.offset.move_to(self.number)
        self.rows = self.outputs = None

    def leave(self) -> None:
        """Have no current item: all outputs were handed out."""
        self.before = self.rows = self.outputs = None
        self.offset.move_to(0)

    def end(self) -> None:
        """Note that upstream has no further item.

        Raises:
          StateMismatch: if outputs of a further item are to be skipped.
        """
        if self.before is None and (offset := self.number):
            raise StateMismatch(
                f"saved offset={offset}, but upstream has no further item; "
                "did the data shrink since the save?",
                self._stage,
            )
        self.leave()

    def get_state(self) -> State:
        """The state of a stage that adds nothing else."""
        before = self.before
        upstream = self._upstream.get_state() if before is None else before()
        return {"offset": self.number, "upstream": upstream}

    def set_state(self, offset: Any, upstream: Any) -> None:
        """Start from the parts of a saved state, and move upstream to its part."""
        self.offset.move_to(unpack_count(self._stage, "offset", offset))
        self._upstream.set_state(upstream)


def _state_before_last(upstream: StageIterator[Any]) -> State:
    """The state before the last item that ``upstream`` handed out."""
    found = upstream.state_at(-1)
    assert found is not None
    return found[0]


def skip_outputs(outputs: Iterator[Any], offset: int, described: str, stage: object) -> None:
    """Skip the first ``offset`` of ``outputs``; refuse a larger offset as `check_offset` does."""
    check_offset(offset, sum(1 for _ in islice(outputs, offset)), described, stage)


def check_offset(offset: int, count: int, described: str, stage: object) -> None:
    """Refuse a saved ``offset`` beyond the outputs.

    Args:
      offset: as saved.
      count: number of outputs present or skipped.
      described: the kind of outputs, and the possible change.
      stage: the stage of the state.

    Raises:
      StateMismatch: if ``offset`` is more than ``count``.
    """
    if offset > count:
        raise StateMismatch(f"saved offset={offset} lies beyond the {count} {described}", stage)
