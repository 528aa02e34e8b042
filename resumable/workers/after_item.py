"""The position of a pipeline after an item received or made by a worker."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple, final

from ..core.stage_iterator import DeferredState
from ..state.value import State, TakenState, taken_state


class AfterItem(NamedTuple):
    """The position of a pipeline after an item.

    Attributes:
      state: returns the state of the pipeline after the item or, in a partition, after an earlier
        item.
      epoch: of the item.
      made: number of items since the run of a partition began or was resumed.
      beyond: number of items made after ``state``.
    """

    state: DeferredState
    epoch: int
    made: int = 0
    beyond: int = 0


@final
class PackedState:
    """A state that travels between processes in both directions, and is pickled only once."""

    def __init__(self, taken: TakenState | None, packed: bytes | None = None) -> None:
        self._taken = taken
        self._packed = packed

    def __call__(self) -> State:
        """The state; raises the error if taking the state raised an error."""
        if self._taken is None:
            assert self._packed is not None
            self._taken = pickle.loads(self._packed)
        return taken_state(self._taken)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._packed is None:
            self._packed = pickle.dumps(self._taken, 5)
        return PackedState, (None, self._packed)
