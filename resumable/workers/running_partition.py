"""A partition that runs in a worker, and notes of where it stands."""

# It takes long to take a state that holds many items. So it is not taken after each item: the place after an
# item is then an earlier state, and how many items came since. Whoever needs the state makes these items again.

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any, Final, NamedTuple, final

from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from ..state.value import take_state
from .after_item import AfterItem, PackedState
from .skips import DroppedItem
from .watching import CallWatch

CHEAP_SECONDS: Final = 1e-4
"""What the state after an item may take."""
STATE_SHARE: Final = 4
"""How many times as long as taking a dearer state the partition works before the next one is taken."""


class RunningPartition(NamedTuple):
    """A partition in motion.

    Attributes:
      pipeline: its stages.
      iterator: of the last one.
      items: those of the iterator.
      made: how many of them came since the run began or was resumed.
      skips: the dropped items that the loop was not told of yet.
      watch: who watches its calls, if somebody does.
      notes: of where it stands.
    """

    pipeline: Stage[Any]
    iterator: StageIterator[Any]
    items: Iterator[Any]
    made: int
    skips: list[DroppedItem]
    watch: CallWatch | None
    notes: PlaceNotes


@final
class PlaceNotes:
    """Notes where a partition stands.

    It takes a state after each item if that costs little, or else as often as it may cost a certain share of
    the time.
    """

    def __init__(self, iterator: StageIterator[Any], place: AfterItem) -> None:
        self._iterator = iterator
        self._last = place
        self._due = 0.0

    def place(self, made: int) -> AfterItem:
        """Where the partition stands, after ``made`` items."""
        if perf_counter() >= self._due:
            return self.exact_place(made)
        last = self._last
        return AfterItem(last.state, self._iterator.epoch, made, last.beyond + made - last.made)

    def exact_place(self, made: int) -> AfterItem:
        """The same, by a new state."""
        began = perf_counter()
        state = take_state(self._iterator.get_state)
        now = perf_counter()
        self._due = now + STATE_SHARE * (now - began) if now - began > CHEAP_SECONDS else now
        self._last = AfterItem(PackedState(state), self._iterator.epoch, made)
        return self._last
