"""Motion of a mix with inputs that begin again, until each has ended once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, final

from ..core import IndexedIterator, Indices, Stage
from ..errors import InvalidArgument
from ..order.rounds import NO_TURNS
from ..state.value import State, unpack, unpack_count
from .mix_iterator import MixIterator
from .repeat import Repeat, RepeatIterator

T = TypeVar("T")


@final
class CyclingMixIterator(MixIterator[T]):
    """Motion of a mix with upstreams that begin again, each in its separate epochs."""

    _upstreams: Sequence[CycleIterator[Any]]

    def _started(self, upstream: Stage[Any], epoch: int) -> CycleIterator[Any]:
        return CycleIterator(upstream, epoch, waits=self._goes_singly)

    def _advance_past_end(self, place: int) -> bool:
        ended = self._upstreams[self._numbers[place]]
        self._turn = self._turn_after(place)
        goes_on = any(each is not ended for each in self._unfinished())
        if goes_on:
            ended.begin_again()
        return goes_on

    def _next_turns(self, count: int) -> tuple[Sequence[int] | Indices, Indices]:
        if not self._goes_singly:
            return super()._next_turns(count)
        stretch = self._schedule.stretch(self._turn)
        if self._turn == stretch.first and not self._unfinished():
            return NO_TURNS, NO_TURNS  # the last one that had not ended has left
        return super()._next_turns(int(min(count, stretch.stop - self._turn)))

    def _unfinished(self) -> list[CycleIterator[Any]]:
        """The upstreams that have not ended and have turns now."""
        numbers = self._schedule.stretch(self._turn).upstreams
        having_turns = [self._upstreams[number] for number in numbers]
        return [upstream for upstream in having_turns if upstream.in_first_epoch]

    def get_state(self) -> State:
        state = super().get_state()
        repeats = state["upstreams"]
        return {
            "turn": state["turn"],
            "passes": [repeat["pass"] for repeat in repeats],
            "delivered": [repeat["delivered"] for repeat in repeats],
            "upstreams": [repeat["upstream"] for repeat in repeats],
        }

    def set_state(self, state: State) -> None:
        names = ("turn", "passes", "delivered", "upstreams")
        turn, passes, delivered, states = unpack(self._stage, state, *names)
        self._turn = unpack_count(self._stage, "turn", turn)
        passes = self._with_new(passes, lambda each: each.get_state()["pass"])
        delivered = self._with_new(delivered, lambda each: each.get_state()["delivered"])
        states = self._with_new(states, lambda each: each.get_state()["upstream"])
        self.check_list("passes", passes)
        self.check_list("upstreams", states)
        checked = zip(
            [unpack_count(self._stage, "passes", number) for number in passes],
            self.check_flags("delivered", delivered),
            states,
            strict=True,
        )
        self.set_upstream_states(
            [
                {"pass": number, "delivered": flag, "upstream": upstream}
                for number, flag, upstream in checked
            ]
        )


@final
class CycleIterator(RepeatIterator[T]):
    """Motion through an endless repeat; no epoch may be without items.

    Args:
      upstream: the stage to repeat.
      epoch: the epoch of the mix.
      waits: whether the second epoch begins only when `begin_again` is called. Until then this
        iterator has no more items than the first epoch.
    """

    def __init__(self, upstream: Stage[T], epoch: int, waits: bool) -> None:
        super().__init__(Repeat(upstream), epoch)
        self._waits = waits

    @property
    def epoch(self) -> int:
        # The mix is in one epoch, though its inputs may be in several epochs.
        return self._start_epoch

    @property
    def in_first_epoch(self) -> bool:
        """Whether the second epoch has not begun."""
        return self._finished == 0

    def begin_again(self) -> None:
        """Begin the second epoch."""
        self._waits = False
        self._next_epoch()

    def _looked_up(self) -> IndexedIterator[T] | None:
        # Epochs looked up as a single sequence would hide the end of the first epoch.
        return None if self._waits and self.in_first_epoch else super()._looked_up()

    def _next_epoch(self) -> bool:
        if not self._delivered:
            raise InvalidArgument(
                without_items(self._stage.upstream, f" in epoch {self._finished}")
            )
        return not (self._waits and self.in_first_epoch) and super()._next_epoch()


def without_items(upstream: Stage[Any], where: str = "") -> str:
    """Why ``upstream`` cannot begin again."""
    return (
        f"a mix with stop='cycle' needs items of each pipeline, got {upstream!r}, which has none"
        f"{where}; leave it out, or use stop='all'"
    )
