"""Count the items that enter and leave each stage, to report the items left out."""

# A user's stage may rightly make fewer items than the input has. So the report only states facts: how
# many items the stage made, whether the count differs from `length`, and whether the state holds more
# at the end of an epoch than at the start, perhaps items never delivered.

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, final

import numpy as np

from ..core.block import Block, block_length
from ..core.function_state import FUNCTION, CallsFunction
from ..core.graph import rebuilt, walk, without_threads
from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from ..core.transform import PassThrough, StateForwardingIterator
from ..errors import shorten
from ..pipeline import Pipeline
from ..stages.batch import Batch
from ..stages.filter import Filter
from ..stages.map import CallsPerItem
from ..stages.scan import Scan
from ..stages.shard import Shard
from ..stages.skip import Skip
from ..stages.take import Take
from ..stages.zip import Zip
from .opened import counting
from .runs import Watch, draw

T = TypeVar("T")

LIBRARY: Final = __name__.partition(".")[0]


@final
@dataclass
class FlowCounts:
    """The items that left a stage.

    Attributes:
      items: number of items, in all epochs.
      ended: number of complete epochs.
      entered: items of the upstream at the end of the last complete epoch.
      left: items of this stage at the same time.
      unlike_length: items of an epoch, if the number differs from ``length``.
      held: values in the state at the end of an epoch and not at the start, as text.
      epochs: the epochs in which the stage was started.
      starts: for a source, the number of starts followed by an item.
      opened: how often the stage's function opened the same source, at most.
      source: this source, as text.
    """

    items: int = 0
    ended: int = 0
    entered: int = 0
    left: int = 0
    unlike_length: int | None = None
    held: str | None = None
    epochs: set[int] = field(default_factory=set)
    starts: int = 0
    opened: int = 0
    source: str = ""

    def note_opened(self, source: Stage[Any], times: int) -> None:
        """Note that the stage's function has opened ``source`` so many times."""
        if times > self.opened:
            self.opened, self.source = times, str(source)


def count_flows(stage: Stage[Any], watch: Watch, *, limit: int | None) -> dict[int, FlowCounts]:
    """The `FlowCounts` of each stage in a run of up to ``limit`` items, by the stage's number."""
    flows: defaultdict[int, FlowCounts] = defaultdict(FlowCounts)

    def watch_stage(number: int, found: Stage[Any]) -> Stage[Any]:
        return _Watched(counting(found, flows[number].note_opened), number, flows)

    watched = rebuilt(without_threads(stage), watch_stage)
    with iter(Pipeline(watched)) as iterator:
        draw(iterator, limit, watch)
    return dict(flows)


def left_out(stage: Stage[Any], flows: dict[int, FlowCounts]) -> Iterator[str]:
    """A sentence with the number of left-out items, for each stage with such arguments."""
    for number, (found, _) in enumerate(walk(stage)):
        entered, left, epochs = _counts(found, flows.get(number, FlowCounts()))
        if entered is None or left is None:
            continue
        line = f"{found}: {entered:,} in, {left:,} out"
        if epochs > 1:
            line += f" in {epochs} epochs"
        if (reason := _reason(found, entered, left)) is not None:
            yield f"{line}, {reason}"
        elif is_the_users(found) and entered != left:
            yield line


def suspicions(stage: Stage[Any], flows: dict[int, FlowCounts]) -> Iterator[str]:
    """A sentence for each stage that may lose items at the end of an epoch, or repeat items."""
    for number, (found, path) in enumerate(walk(stage)):
        flow = flows.get(number, FlowCounts())
        if flow.unlike_length is not None:
            yield (
                f"{found} at {path} delivered {flow.unlike_length:,} items in an epoch, and its "
                f"length says {found.length:,}."
            )
        if flow.held is not None:
            yield f"{found} at {path} {_of_held(found, flow.held)}"
        if (repeated := _of_repeated(flow)) is not None:
            yield f"{found} at {path} {repeated}"


def _counts(stage: Stage[Any], flow: FlowCounts) -> tuple[int | None, int | None, int]:
    """Items in and out, and of how many epochs: by their lengths if known, else as counted."""
    lengths = [_known(upstream) for upstream in stage.inputs]
    entered, left = max((one or 0 for one in lengths), default=None), _known(stage)
    if None not in lengths and left is not None:
        return entered, left, 1
    if flow.ended and len(stage.inputs) == 1:
        return flow.entered, flow.left, flow.ended
    return None, None, 0


def _known(stage: Stage[Any]) -> int | None:
    length = stage.length
    return None if length is None or length == math.inf else int(length)


def _reason(stage: Any, entered: int, left: int) -> str | None:
    """How many items were left out because of the stage's arguments; None if not."""
    lost, because = entered - left, None
    match stage:
        case Batch() if stage.drop_last:
            lost, because = entered - left * stage.batch_size, "by drop_last"
        case Shard() if stage.uneven == "drop":
            lost, because = entered % stage.count, 'on all ranks together, by uneven="drop"'
        case CallsPerItem() if stage.drops:
            because = 'by on_error="skip"'
        case Filter():
            because = "by its predicate"
        case Take() | Skip():
            because = f"by count={stage.count}"
        case Zip():
            because = "since another input ended first"
    return f"{lost:,} left out {because}" if because and lost else None


def _of_held(stage: Stage[Any], held: str) -> str:
    if isinstance(stage, CallsFunction) and not stage.carries_state:
        return (
            f"drops its last carry, {held}, at the end of an epoch; if that holds items which have "
            "not come out, scan(fn, initial, finish=f) hands out what f makes of it."
        )
    place = "the state of its function" if isinstance(stage, CallsFunction) else "its state"
    return (
        f"ends an epoch with {held} in {place}; if that holds items which have not come out, they are "
        "lost."
    )


def _of_repeated(flow: FlowCounts) -> str | None:
    """How the stage repeats items within an epoch; None without repetition."""
    epochs = max(len(flow.epochs), 1)
    shown = f"{epochs} epochs" if epochs > 1 else "one epoch"
    if flow.starts > epochs:
        return f"was read from its start {flow.starts:,} times in {shown}."
    if flow.opened > epochs:
        return (
            f"opened {flow.source} {flow.opened:,} times in {shown}: what is in it was "
            "delivered as often. If that is not meant, let the function make a pipeline of the item alone."
        )
    return None


def is_the_users(stage: Stage[Any]) -> bool:
    """Whether the class of ``stage`` does not belong to the library."""
    return type(stage).__module__.partition(".")[0] != LIBRARY


@final
@dataclass(frozen=True, eq=False, repr=False)
class _Watched(PassThrough[T]):
    """Counts the upstream's items, except items looked up by index: then the length is known."""

    ignores_items = True

    number: int
    flows: dict[int, FlowCounts] = field(repr=False)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _WatchedIterator(self, epoch)


class _WatchedIterator(StateForwardingIterator[T]):
    _stage: _Watched[T]

    def __init__(self, stage: _Watched[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._flow = stage.flows.setdefault(stage.number, FlowCounts())
        self._flow.epochs.add(epoch)
        self._delivered = 0
        self._ended = False
        self._at_first = self._kept()

    def pull(self, count: int) -> Block:
        block = self._upstream.pull(count)
        self._note(block_length(block), count)
        return block

    def skip(self, count: int) -> int:
        passed = self._upstream.skip(count)
        self._note(passed, count)
        return passed

    def _note(self, delivered: int, wanted: int) -> None:
        if delivered and not self._delivered and not self._stage.upstream.inputs:
            self._flow.starts += 1
        self._flow.items += delivered
        self._delivered += delivered
        if delivered < wanted and not self._ended:
            self._ended = True
            self._note_end()

    def _note_end(self) -> None:
        flow, stage = self._flow, self._stage.upstream
        flow.ended += 1
        flow.left = flow.items
        flow.entered = self._stage.flows.get(self._stage.number + 1, FlowCounts()).items
        if stage.length not in (None, self._delivered):
            flow.unlike_length = self._delivered
        kept = self._kept()
        flow.held = shorten(kept) if _leaves(kept) > _leaves(self._at_first) else None

    def _kept(self) -> Any:
        """The state of a function, a carry or a user's stage; None for built-in stages."""
        stage = self._stage.upstream
        with suppress(Exception):  # a state that cannot be taken is reported elsewhere
            if isinstance(stage, CallsFunction) and stage.carries_state:
                return self._upstream.get_state()[FUNCTION]
            if isinstance(stage, Scan) and stage.finish is None:
                return self._upstream.get_state()["carry"]
            if stage.inputs and is_the_users(stage):
                state = self._upstream.get_state()
                return {k: v for k, v in state.items() if k not in ("upstream", "upstreams")}
        return None


def _leaves(value: Any) -> int:
    """The number of plain values in ``value``."""
    if isinstance(value, dict):
        return sum(map(_leaves, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_leaves, value))
    if isinstance(value, np.ndarray):
        return value.size
    if isinstance(value, (str, bytes)):
        return len(value)
    return 1
