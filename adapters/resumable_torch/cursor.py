"""The place of a loop in the passes over a pipeline, counted in consumed items."""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping
from typing import Any, Final

import resumable as rs
from resumable.consumed import ConsumedStates
from resumable.core.arguments import check_int
from resumable.core.foreign_source import inexact_sources
from resumable.errors import shorten
from resumable.state.encoding import dumps_frozen
from resumable.state.foreign import looks_like
from resumable.state.value import State

__all__ = ["KEY", "Cursor", "InPasses", "state_in"]

KEY: Final = "resumable"
"""The only key of every ``state_dict``; its value is what `resumable.loads` reads."""


def state_in(state_dict: Mapping[str, Any]) -> State:
    """The state that a ``state_dict`` holds.

    Raises:
      StateMismatch: if it holds none.
    """
    if not isinstance(state_dict, Mapping) or set(state_dict) != {KEY}:
        raise rs.StateMismatch(
            f"the state must be a dict with the key {KEY!r} alone, got "
            f"{shorten(state_dict)}{looks_like(state_dict)}"
        )
    data = state_dict[KEY]
    if isinstance(data, io.BytesIO):  # the form in which some savers return bytes
        data = data.getvalue()
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise rs.StateMismatch(f"the state must be bytes, got {shorten(data)}")
    return rs.loads(data)


class Cursor:
    """The epoch in progress; before its first item, the next one.

    Args:
      pipeline: going through it once is an epoch.

    Attributes:
      pipeline: the argument.
      epoch: its number.
      jumps: how often the cursor moved elsewhere than to the start of the next epoch.
      moves: how often `load` or `set_epoch` has made the count of consumed items invalid.

    Raises:
      InvalidArgument: if a source can only be read once.
      ExternalStateError: if a source would lose items on a resume, and its policy is ``"fail"``.
    """

    def __init__(self, pipeline: rs.Pipeline[Any]) -> None:
        for stage, path in inexact_sources(pipeline.stage):
            if stage.reads_once:
                raise rs.InvalidArgument(
                    f"pipeline must be one that can be read again, got {stage!r} at {path}; pass "
                    "from_iterable a function that makes the iterator"
                )
        self.pipeline = pipeline
        self.jumps = 0
        self.moves = 0
        self._states: ConsumedStates[Any] = ConsumedStates(pipeline)
        self._chosen: int | None = None  # the argument of `set_epoch`
        self.epoch = 0
        self._begun = False
        self._resumed = False
        self._known: dict[
            int, bool
        ] = {}  # whether a resumed epoch has at least this many items left
        self._stand_at(self._states.first_of(0), resumed=False)

    def begin(self, consumed: int, fewest: int = 1) -> None:
        """Begin an epoch: the resumed one, or that of `set_epoch`, or the next one.

        Args:
          consumed: number of items of the previous epoch that were consumed. If it is 0, that epoch
            begins again.
          fewest: the smallest number of items that make an epoch. If a resumed epoch has fewer left, it
            is over.
        """
        chosen, self._chosen = self._chosen, None
        again = self._begun and consumed > 0
        if chosen is not None:
            if again:
                self._jump_to(chosen)
        elif again:
            self.end()
        elif self.epoch_to_come(fewest) != self.epoch:
            self._jump_to(self.epoch + 1)
        self._begun = True

    def epoch_to_come(self, fewest: int = 1) -> int:
        """The number of the epoch in progress; before its first item, of the next one."""
        if self._begun or not self._resumed or self._chosen is not None:
            return self.epoch
        return self.epoch if self._has(fewest) else self.epoch + 1

    def end(self) -> None:
        """End the epoch and move to the start of the next one."""
        self._stand_at(self._states.first_of(self.epoch + 1), resumed=False)

    def set_epoch(self, epoch: int) -> None:
        """Let the next epoch have the number ``epoch``, or the rest of it if it was resumed."""
        self._chosen = check_int("epoch", epoch, minimum=0)
        if epoch == self.epoch:
            return
        if self._begun and epoch == self.epoch + 1:
            self.end()
        else:
            self._jump_to(epoch)
        self.moves += 1

    def state_dict(self, count: int) -> dict[str, bytes]:
        """The state after ``count`` items of the epoch, or at its end if it has fewer."""
        return {KEY: dumps_frozen(self._states.after(self._states.origin["step"] + count))}

    def keep(self, count: int, data: bytes) -> None:
        """Record the state after ``count`` items of the epoch, serialised by `resumable.dumps`."""
        self._states.keep(self._states.origin["step"] + count, data)

    def state_of(self, iterator: rs.PipelineIterator[Any]) -> dict[str, bytes]:
        """The state of an iterator over the pipeline."""
        return {KEY: dumps_frozen(iterator.get_state())}

    def load(self, state_dict: Mapping[str, Any]) -> None:
        """Move to a state, in the middle of its epoch.

        Raises:
          StateMismatch: if it belongs to another pipeline; the cursor then stays where it is.
        """
        self._stand_at(self._states.checked(state_in(state_dict)), resumed=True)
        self._chosen = None
        self.jumps += 1
        self.moves += 1

    def produce(self, *, threads: bool = True) -> rs.PipelineIterator[Any]:
        """A new iterator at the beginning of the epoch, or where it was resumed."""
        return self._states.produce(threads=threads)

    @property
    def begun(self) -> bool:
        """Whether the epoch has begun."""
        return self._begun

    @property
    def resumed(self) -> bool:
        """Whether the epoch is the rest of one that was resumed."""
        return self._resumed

    @property
    def origin(self) -> State:
        """The state with which the epoch began, or was resumed."""
        return self._states.origin

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_states": copy.copy(self._states)}  # a copy goes its own way

    def _jump_to(self, epoch: int) -> None:
        self._stand_at(self._states.first_of(epoch), resumed=False)
        self.jumps += 1

    def _stand_at(self, state: State, *, resumed: bool) -> None:
        self._states.start_at(state)
        self._resumed = resumed
        self._known = {}
        self._begun = False
        self.epoch = int(state["epoch"])

    def _has(self, count: int) -> bool:
        if count not in self._known:
            self._known[count] = self._states.has(count)
        return self._known[count]


class InPasses:
    """The common part of all classes that go through a pipeline epoch by epoch.

    Attributes:
      cursor: the place of the loop.
    """

    cursor: Cursor

    @property
    def fewest(self) -> int:
        """The smallest number of items that make an epoch."""
        return 1

    @property
    def epoch(self) -> int:
        """The number of the epoch in progress; before its first item, of the next one."""
        return self.cursor.epoch_to_come(self.fewest)

    def set_epoch(self, epoch: int) -> None:
        """Let the next epoch have the number ``epoch``, or the rest of it if it was resumed."""
        self.cursor.set_epoch(epoch)
