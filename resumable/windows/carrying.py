"""A window with the items in its state, for a source too slow to read again."""

from __future__ import annotations

from typing import TypeVar

from ..errors import StateMismatch, UnencodableState
from ..state.value import State, freeze, unpack, unpack_count, unpack_flag
from .reservoir import Reservoir

T = TypeVar("T")


class CarryingIterator(Reservoir[T]):
    """A window that saves the items in the state."""

    _items_held = 0

    def get_state(self) -> State:
        slots = list(self._slots)
        if self._hole is not None:
            slots[self._hole] = None
        try:
            carried = freeze(slots, "carried items")
        except UnencodableState as error:
            raise UnencodableState(f"{self._stage!r}: {error}; use carry=False") from None
        return {
            "position": self._position.number,
            "draining": self._draining,
            "hole": self._hole,
            "slots": carried,
            "upstream": self._upstream.get_state(),
        }

    def set_state(self, state: State) -> None:
        names = ("position", "draining", "hole", "slots", "upstream")
        position, draining, hole, slots, upstream = unpack(self._stage, state, *names)
        self._position.move_to(unpack_count(self._stage, "position", position))
        window = self._window
        if not isinstance(slots, list) or len(slots) > window:
            raise StateMismatch(
                f"saved slots must be a list of at most window={window} items", self._stage
            )
        if unpack_flag(self._stage, "draining", draining) and hole is not None:
            raise StateMismatch("saved hole must be None where draining is true", self._stage)
        if hole is not None:
            unpack_count(self._stage, "hole", hole, len(slots) - 1, "the window")
        if not draining and len(slots) not in (0 if hole is None else window, window):
            raise StateMismatch(f"saved slots must fill the window, got {len(slots)}", self._stage)
        self._upstream.set_state(upstream)
        self._slots = freeze(slots)
        self._hole, self._draining = hole, draining
