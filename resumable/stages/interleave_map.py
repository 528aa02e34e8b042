"""Expand several items at once and take turns between the expansions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any, ClassVar, TypeVar, final

from ..core import (
    ALWAYS,
    ITEMS,
    PARTS,
    RANK,
    Dependence,
    IdentityFields,
    ItemByItem,
    Items,
    SavedState,
    Stage,
    StageIterator,
    TransformIterator,
    check_int,
)
from ..core.arguments import check_field
from ..core.expansion import close_expansion, expand, inner_stage, items_of
from ..core.function_state import check_stateless
from ..core.function_version import FunctionVersion
from ..core.graph import tuned, tuning_without_threads, walk
from ..core.relation import one_by_one
from ..core.replay_point import END
from ..core.stage import InputShadows
from ..core.stage_iterator import DeferredState, state_deferrer
from ..errors import CorruptCheckpoint, InvalidArgument, StateMismatch, shorten
from ..shadows.expanded import ExpandsTraced
from ..state.columns import as_columns, as_rows
from ..state.encoding import dumps, loads
from ..state.value import (
    State,
    freeze,
    taken_state,
    unpack,
    unpack_count,
    unpack_flag,
)
from ..workers.tally import MayDropItems
from .cache import Cache

T = TypeVar("T")

# A state has at least two dicts for each place, and may have 500,000 in all.
MOST_PLACES = 1 << 16


@final
@dataclass(frozen=True, eq=False, repr=False)
class InterleaveMap(FunctionVersion[T]):
    """Open ``cycle_length`` items through ``fn`` and take ``block_length`` items of each in turn.

    As in `tf.data.Dataset.interleave`, an expansion that ends frees its place. At the next turn of
    the place, upstream's next item takes it.

    State: O(cycle_length): for each open item, upstream's state before the item and the position in
    its expansion. A resume reads the open items again, calls ``fn`` with each, and skips the
    outputs already handed out (at no cost, if ``fn`` returns a pipeline that resumes at no cost).
    Meanwhile upstream computes no items ahead.

    Args:
      upstream: stage whose items are expanded.
      fn: called with an item; returns an iterable or a pipeline, with the same items in every run.
      cycle_length: number of items open at once, from 1 to 65,536.
      block_length: consecutive items in a turn, at least 1.
      fn_version: a string or a number; change this value whenever the function's results change. A
        state saved with another version is refused.

    Raises:
      InvalidArgument: if a number is out of range, or ``fn`` carries state.
      InvalidType: if an argument has the wrong type; while iterating, if ``fn`` returns no
        iterable.

    >>> list(rs.from_sequence(["abc", "xyz"]).interleave_map(list, cycle_length=2))
    ['a', 'x', 'b', 'y', 'c', 'z']
    """

    identity: ClassVar[IdentityFields] = {
        **FunctionVersion.identity,
        "cycle_length": ALWAYS,
        "block_length": ALWAYS,
    }
    depends_on: ClassVar[Dependence] = ITEMS | PARTS | RANK
    version: ClassVar[int] = 2  # in the first, the shape of the state varied along the run

    fn: Callable[[Any], Iterable[T]]
    _: KW_ONLY
    cycle_length: int
    block_length: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stateless("fn", self.fn)
        check_field(self, "cycle_length", check_int, minimum=1, maximum=MOST_PLACES)
        check_field(self, "block_length", check_int, minimum=1)

    @property
    def state_cost(self) -> SavedState:
        text = f"the places of up to {self.cycle_length} open items, which a resume reads again"
        return SavedState(text, levels=3)

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        return replace(self, upstream=inputs.pairs[0], fn=ExpandsTraced(self.fn))

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _InterleaveMapIterator(self, epoch)


class _OpenExpansion:
    """One open expansion: upstream's state before the item, and the position in the expansion."""

    def __init__(
        self, before: DeferredState, expansion: Iterator[Any], offset: int, exact: bool
    ) -> None:
        self.before = before
        self.offset = offset
        self._expansion = expansion
        # Whether the expansion is a pipeline, whose state is saved so that nothing is skipped.
        self._exact = exact
        self.items = items_of(expansion)

    def get_state(self) -> State:
        inner = b""
        if self._exact:
            assert isinstance(self._expansion, StageIterator)
            inner = dumps(self._expansion.get_state())
        return {"open": True, "offset": self.offset, "inner": inner, "upstream": self.before()}

    def close(self) -> None:
        close_expansion(self._expansion)


def _closed_place(upstream: State) -> State:
    """The state of a place without an expansion, in the shape of an open place."""
    return {"open": False, "offset": 0, "inner": b"", "upstream": upstream}


class _InterleaveMapIterator(ItemByItem[T], TransformIterator[T]):
    _stage: InterleaveMap[T]

    def __init__(self, stage: InterleaveMap[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._start_epoch = epoch
        self._places: list[_OpenExpansion | None] = [None] * stage.cycle_length
        self._turn = 0
        self._taken = 0  # items of the current turn
        self._ended = False  # upstream has no further item
        # The saved places, until the first item is asked for.
        self._saved: list[State] | None = None

    def items(self) -> Items[T]:
        return Items(self._walk())

    def _walk(self) -> Iterator[T]:
        if self._saved is not None:
            read = _read_singly(self._stage.upstream)
            self._places = [self._reopened(saved, read) for saved in self._saved]
            self._saved = None
        upstream = iter(self._upstream.items())
        places, count, block_length = self._places, len(self._places), self._stage.block_length
        while True:
            turn = self._turn
            place = places[turn]
            if place is None:
                place = places[turn] = self._open(upstream)
            if place is not None:
                for item in place.items:
                    place.offset += 1
                    self._taken += 1
                    if self._taken == block_length:
                        self._turn, self._taken = (turn + 1) % count, 0
                        yield item
                        break
                    yield item
                else:
                    place.close()
                    places[turn] = None
                    self._turn, self._taken = (turn + 1) % count, 0
            elif any(places):
                self._turn, self._taken = (turn + 1) % count, 0
            else:
                return

    def get_state(self) -> State:
        places, upstream = self._saved, self._upstream.get_state()
        if places is None:
            places = [
                _closed_place(upstream) if place is None else place.get_state()
                for place in self._places
            ]
        else:  # upstream's state may have another shape by now
            places = [place if place["open"] else _closed_place(upstream) for place in places]
        return {
            "turn": self._turn,
            "taken": self._taken,
            "ended": self._ended,
            "places": as_columns(places),
            "upstream": upstream,
        }

    def set_state(self, state: State) -> None:
        stage = self._stage
        names = ("turn", "taken", "ended", "places", "upstream")
        turn, taken, ended, places, upstream = unpack(stage, state, *names)
        self._ended = unpack_flag(stage, "ended", ended)
        self._turn = unpack_count(stage, "turn", turn, stage.cycle_length - 1)
        self._taken = unpack_count(stage, "taken", taken, stage.block_length - 1)
        # Otherwise the state has version 1, or the states of upstream differ in their keys.
        if isinstance(places, dict) and "open" in places:
            with suppress(StateMismatch):
                places = as_rows(places, stage.cycle_length)
        if not isinstance(places, list) or len(places) != stage.cycle_length:
            raise StateMismatch(
                f"saved places must be a list of cycle_length={stage.cycle_length} entries", stage
            )
        self._upstream.set_state(upstream)
        closed = dumps(upstream)
        self._saved = [self._checked(place, upstream, closed) for place in places]

    def _checked(self, place: Any, upstream: State, closed: bytes) -> State:
        """A copy of a saved place. In version 1 a closed place is None, an open place has no flag.

        Args:
          place: the saved value, unchecked.
          upstream: upstream's state in a closed place.
          closed: ``upstream``, serialised.
        """
        stage = self._stage
        if place is None:
            return _closed_place(freeze(upstream))
        if isinstance(place, dict) and "open" not in place:
            inner = place.get("inner")
            place = {**place, "open": True, "inner": b"" if inner is None else dumps(inner)}
        is_open, offset, inner, before = unpack(stage, place, "open", "offset", "inner", "upstream")
        unpack_count(stage, "offset", offset)
        if not isinstance(inner, bytes):
            raise StateMismatch(f"saved inner must be bytes, got {shorten(inner)}", stage)
        if unpack_flag(stage, "open", is_open):
            opened = stage.upstream.start(self._start_epoch)  # reads nothing
            opened.set_state(before)
            opened.close()
        elif (offset, inner, dumps(before)) != (0, b"", closed):
            raise StateMismatch("a saved place that is closed must hold nothing of its own", stage)
        copied: State = freeze(place)
        return copied

    def close(self) -> None:
        for place in self._places:
            if place is not None:
                place.close()
        super().close()

    def _open(self, upstream: Iterator[Any]) -> _OpenExpansion | None:
        """The expansion of the next item, if any."""
        if self._ended:
            return None
        before = state_deferrer(self._upstream)()
        item = next(upstream, END)
        if item is END:
            self._ended = True
            return None
        return self._expanded(item, before, 0, None)

    def _expanded(
        self, item: Any, before: DeferredState, offset: int, inner: State | None
    ) -> _OpenExpansion:
        made = self._stage.fn(item)
        stage = inner_stage(made)
        if stage is None or (offset and inner is None):
            return _OpenExpansion(
                before, expand(made, self._start_epoch, offset, self._stage), offset, False
            )
        items = stage.start(self._start_epoch)
        if inner is not None:
            items.set_state(inner)
        return _OpenExpansion(before, items, offset, True)

    def _reopened(self, saved: State, read: Stage[Any]) -> _OpenExpansion | None:
        if not saved["open"]:
            return None
        upstream = read.start(self._start_epoch)
        try:
            upstream.set_state(saved["upstream"])
            item: Any = next(upstream)
        except StopIteration:
            raise StateMismatch(
                "upstream no longer has the item of an open place; "
                "did the data change since the save?",
                self._stage,
            ) from None
        except StateMismatch as error:
            # Errors name the stages of the pipeline, not copies.
            for copy, stage in zip(_stages(read), _stages(self._stage.upstream), strict=True):
                if copy is error.stage:
                    error.stage = stage
            raise
        finally:
            upstream.close()
        before = partial(taken_state, saved["upstream"])
        inner = self._decoded(saved["inner"]) if saved["inner"] else None
        return self._expanded(item, before, saved["offset"], inner)

    def _decoded(self, data: bytes) -> State:
        try:
            return loads(data)
        except CorruptCheckpoint as error:
            raise StateMismatch(f"saved inner is not a state: {error}", self._stage) from None


def _read_singly(stage: Stage[T]) -> Stage[T]:
    """``stage`` without computing ahead, so that a single item costs little more than itself.

    Workers stay if one item needs many of their results, as a batch does.
    """
    # A cache keeps its items for itself alone, so neither the cache nor its upstream is copied.
    stages = list(takewhile(lambda found: not isinstance(found, Cache), _stages(stage)))
    last = len(list(takewhile(one_by_one, stages)))
    tuning = {
        number: changes
        for number, changes in tuning_without_threads(stage).items()
        if number < len(stages)
        and ("workers" not in changes or (number <= last and not _needs_workers(stages[number])))
    }
    try:
        return tuned(stage, tuning)
    except InvalidArgument:  # a stage of the user that cannot be copied
        return stage


def _needs_workers(stage: Stage[Any]) -> bool:
    """Whether the function of ``stage`` may be unable to run in this process, or might end it."""
    executor = getattr(stage, "executor", "thread")
    if not isinstance(executor, str):
        return True
    return executor == "process" and isinstance(stage, MayDropItems) and stage.drops


def _stages(stage: Stage[Any]) -> Iterator[Stage[Any]]:
    return (found for found, _ in walk(stage))
