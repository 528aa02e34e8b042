"""How many items of a pass a map has tried, and how many of them it has dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from ..core.stage_iterator import StageIterator
from ..state.value import State, unpack, unpack_count

OnSkip = Callable[[int, Exception], object]

FIRST_SHAPE: Final = {"skipped", "upstream"}
"""The keys of a state of version 1; also of later ones if the number of items tried is unknown."""


@final
class Tally:
    """The items that a map has passed, and how many of those it dropped.

    Attributes:
      skipped: how many items were dropped in this pass.
    """

    def __init__(self, on_skip: OnSkip | None = None) -> None:
        self.skipped = 0
        self._on_skip = on_skip
        # Items before those counted here; None if their number is unknown.
        self._before: int | None = 0
        self._counted = 0

    def pass_over(self, count: int) -> None:
        """Count ``count`` items as passed."""
        self._counted += count

    def drop(self, error: Exception | None) -> None:
        """Count one item as passed, and as dropped because of ``error``."""
        number = self.number
        self._counted += 1
        self.skipped += 1
        if self._on_skip is not None:
            assert error is not None
            self._on_skip(number, error)

    @property
    def number(self) -> int:
        """The next item's number in the pass, or, if that is unknown, since the resume."""
        return (self._before or 0) + self._counted

    def place(self) -> str:
        """The number of the next item, and what it counts from, for a message."""
        since = "" if self._before is not None else ", counted since the iterator was resumed"
        return f"item {self.number}{since}"

    def get_state(self, upstream: State) -> State:
        """The state of a map that drops items."""
        if self._before is None:
            return {"skipped": self.skipped, "upstream": upstream}
        tried = self._before + self._counted
        return {"tried": tried, "dropped": self.skipped, "upstream": upstream}

    def set_state(self, stage: Any, state: Any, upstream: StageIterator[Any]) -> None:
        """Begin at ``state``, and move ``upstream`` to its part of it."""
        tried = None
        if isinstance(state, dict) and state.keys() == FIRST_SHAPE:
            skipped, inner = unpack(stage, state, "skipped", "upstream")
            self.skipped = unpack_count(stage, "skipped", skipped)
        else:
            tried, skipped, inner = unpack(stage, state, "tried", "dropped", "upstream")
            length = stage.upstream.length
            tried = unpack_count(stage, "tried", tried, length, f"the end, length={length}")
            self.skipped = unpack_count(stage, "dropped", skipped, tried, f"tried={tried}")
        upstream.set_state(inner)
        self._begin(tried, upstream)

    def set_plain_state(self, stage: Any, state: Any, upstream: StageIterator[Any]) -> None:
        """The same for a map that drops no items, whose state has no counts."""
        (inner,) = unpack(stage, state, "upstream")
        upstream.set_state(inner)
        self._begin(None, upstream)

    def _begin(self, tried: int | None, upstream: StageIterator[Any]) -> None:
        self._before = _index_of(upstream) if tried is None else tried
        self._counted = 0


def _index_of(upstream: StageIterator[Any]) -> int | None:
    """The number of upstream's next item; None unless it is looked up by index."""
    found = upstream.state_at(0)
    state: Any = found and found[0]
    position: int | None = None
    while isinstance(state, dict):  # the innermost: others may count the items of all ranks
        position = state.get("position", position)
        state = state.get("upstream")
    return position
