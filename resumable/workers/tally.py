"""Number of items of an epoch that a map has tried, and number of dropped items."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import Parameter, signature
from typing import Any, Final, TypeVar, final

from ..core.source_item import SourceItem
from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from ..state.value import State, unpack, unpack_count

T = TypeVar("T")

OnSkip = Callable[..., object]
"""A user's function of a number and an error, and of the item if there are three arguments."""
SkipListener = Callable[[int, Exception, Any], object]
"""Called with a number, an error and an item."""


class MayDropItems(Stage[T]):
    """A stage that may leave out an item if the user's function raises.

    Attributes:
      on_error: ``"skip"`` to leave such items out, ``"raise"`` to pass the exception on.
      on_skip: called for each item left out.
    """

    on_error: str
    on_skip: OnSkip | None

    @property
    def drops(self) -> bool:
        """Whether items are left out if the function raises."""
        return self.on_error == "skip"

    @property
    def skip_listener(self) -> SkipListener | None:
        """``on_skip`` with three arguments; the third, the item, is left out if not taken."""
        if self.on_skip is None or takes_item(self.on_skip):
            return self.on_skip
        return partial(_without_item, self.on_skip)


FIRST_SHAPE: Final = {"skipped", "upstream"}
"""The keys of a state of version 1; also later if the number of items tried is unknown."""


@final
class Tally:
    """The items passed by a map, and the number of dropped items.

    Attributes:
      skipped: number of items dropped in this epoch.
    """

    def __init__(self, listener: SkipListener | None = None, *, by_index: bool = False) -> None:
        self.skipped = 0
        self._skip_listener = listener
        # Otherwise workers and blocks would decide whether the number in the source is known.
        self._by_index = by_index
        # Number of items before counting began; None if unknown.
        self._before: int | None = 0
        self._counted = 0

    def pass_over(self, count: int) -> None:
        """Count ``count`` items as passed."""
        self._counted += count

    def drop(
        self,
        error: Exception | None,
        origin: Callable[[], SourceItem | None],
        item: Callable[[], Any],
    ) -> None:
        """Count one item as passed, and as dropped because of ``error``.

        Args:
          error: raised by the call; may be None without a listener.
          origin: returns the origin of the item.
          item: returns the item.
        """
        number = self.number
        self._counted += 1
        self.skipped += 1
        if self._skip_listener is not None:
            assert error is not None
            found = origin() if self._by_index else None
            self._skip_listener(number if found is None else found.number, error, item())

    @property
    def number(self) -> int:
        """The next item's number in the epoch, or, if unknown, since the resume."""
        return (self._before or 0) + self._counted

    @property
    def known_number(self) -> int | None:
        """The number of the next item in the epoch; None if counted only since the resume."""
        return None if self._before is None else self.number

    def described_number(self) -> str:
        """The number of the next item and the start of the count, for a message."""
        since = "" if self._before is not None else ", counted since the iterator was resumed"
        return f"item {self.number}{since}"

    def get_state(self, upstream: State) -> State:
        """The state of a map with dropped items."""
        if self._before is None:
            return {"skipped": self.skipped, "upstream": upstream}
        tried = self._before + self._counted
        return {"tried": tried, "dropped": self.skipped, "upstream": upstream}

    def set_state(self, stage: Any, state: Any, upstream: StageIterator[Any]) -> None:
        """Begin at ``state``, and move ``upstream`` to its part of the state."""
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
        """Begin at the ``state`` of a map that drops no items, without counts."""
        (inner,) = unpack(stage, state, "upstream")
        upstream.set_state(inner)
        self._begin(None, upstream)

    def _begin(self, tried: int | None, upstream: StageIterator[Any]) -> None:
        self._before = _index_of(upstream) if tried is None else tried
        self._counted = 0


def takes_item(on_skip: OnSkip) -> bool:
    """Whether ``on_skip`` has a third argument, without a default, for the item."""
    try:
        arguments = list(signature(on_skip).parameters.values())
    except (TypeError, ValueError):  # some built-in functions do not tell
        return False
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in arguments if one.kind in positional and one.default is Parameter.empty]
    return len(needed) > 2


def _without_item(on_skip: OnSkip, number: int, error: Exception, item: Any) -> None:
    on_skip(number, error)


def _index_of(upstream: StageIterator[Any]) -> int | None:
    """The number of the next item of ``upstream``; None without lookup by index."""
    found = upstream.state_at(0)
    state: Any = found and found[0]
    position: int | None = None
    while isinstance(state, dict):  # the innermost: outer positions may count all ranks
        position = state.get("position", position)
        state = state.get("upstream")
    return position
