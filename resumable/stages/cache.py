"""Keep the items of a finite upstream in memory."""

# Every epoch keeps an item by its index as soon as the item is made, whether the epoch goes in
# order, looks items up, or was resumed mid-epoch. Upstream makes only missing items; a stream skips
# the kept items before a missing item. So an item is made twice only if two epochs make it at the
# same time, and an error loses no item made before (tests/stages/test_cache.py:
# test_an_error_costs_nothing_that_was_made). The exception is an error out of a block made at once:
# the earlier items of the block are lost. They are made again one by one and kept, so that later
# tries do not make them.

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, takewhile
from typing import Any, ClassVar, TypeVar, final

import numpy as np

from ..core import (
    ITEMS,
    PARTS,
    RANK,
    Block,
    Dependence,
    Indexed,
    IndexedIterator,
    Indices,
    InputItems,
    Items,
    PreparedItems,
    Relation,
    Same,
    StageIterator,
    Transform,
    block_items,
    computed_once,
)
from ..core.graph import walk
from ..core.position import CountsItems, Position
from ..core.stage import known_length, runs_ahead
from ..core.stage_iterator import DeferredState
from ..errors import InvalidArgument, StateMismatch
from ..state.value import State, unpack, unpack_position

T = TypeVar("T")


class CachedItems:
    """Items by their index in an epoch. A pickle or a copy is empty.

    Attributes:
      items: the items made so far.
      length: number of items of an epoch; None until an epoch has reached the end.
    """

    def __init__(self) -> None:
        self.items: dict[int, Any] = {}
        self.length: int | None = None

    def __reduce__(self) -> tuple[type[CachedItems], tuple[()]]:
        return CachedItems, ()

    def gather(self, numbers: list[int], upstream: Indexed[Any]) -> list[Any]:
        """The items with ``numbers``; ``upstream`` makes the missing items."""
        try:
            return list(map(self.items.__getitem__, numbers))
        except KeyError:
            pass
        missing = [number for number in dict.fromkeys(numbers) if number not in self.items]
        if missing:
            self.keep(missing, partial(upstream.gather, np.array(missing, np.int64)), upstream)
        return list(map(self.items.__getitem__, numbers))

    def keep(self, numbers: list[int], make: Callable[[], Block], upstream: Indexed[Any]) -> None:
        """Keep the items with ``numbers``, which ``make`` makes from ``upstream`` at once.

        If ``make`` raises, the items before the failing item are kept all the same.
        """
        try:
            made = block_items(make())
        except Exception as error:
            raised = error
        else:
            self.items.update(zip(numbers, map(guarded, made), strict=True))
            return
        try:
            for number in numbers:
                if number not in self.items:
                    self.items[number] = guarded(upstream.item(number))
            raise raised  # the retry had no error, so report the first
        finally:
            del raised  # its traceback refers to this frame


@final
@dataclass(frozen=True, eq=False, repr=False)
class Cache(Transform[T]):
    """Upstream's items, each made once and then kept in memory.

    Every epoch has the items of upstream's epoch 0, so shuffles and random maps *before* a cache do
    not change from epoch to epoch. Put both after the cache for a new order in each epoch.

    The items belong to this pipeline in this process, and all of its iterators share them. They are
    freed with the pipeline, and are neither pickled nor sent to workers. Their memory has no limit.
    Arrays are handed out read-only, also inside dicts and tuples. A batch of arrays is a copy,
    which can be written to. Other objects are handed out without a copy, so a change stays for
    later epochs. After an error within a batch, the earlier items of the batch are made once more,
    and then kept.

    Where workers run partitions, a cache in the function of a `partition` keeps its items for one
    epoch of the `partition` only, and a worker that replaces another makes the items again. There,
    put the ``repeat`` into the function too, after the cache, or do without ``workers``.

    State: O(1), the position; never the items. Random access is kept. With random access a resume
    makes no item before the position. A stream is read from its start, and skipped up to the
    position, without calling maps.

    Args:
      upstream: stage of finite or unknown length.

    Raises:
      InvalidArgument: if ``upstream`` is endless.

    >>> kept = rs.range(3).map(lambda item: print("made", item) or item).cache()
    >>> list(kept.repeat(2))
    made 0
    made 1
    made 2
    [0, 1, 2, 0, 1, 2]
    """

    unchanged = True
    depends_on: ClassVar[Dependence] = ITEMS | PARTS | RANK

    kept: CachedItems = field(init=False, repr=False, default_factory=CachedItems)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.upstream.length == math.inf:
            raise InvalidArgument(
                f"cache needs a pipeline that ends, got the endless {self.upstream!r}; use take(n)"
            )

    def relation(self, epoch: int) -> Relation:
        return Same(self, epoch, kept=True, input_at=lambda _: InputItems(self.upstream, 0))

    @property
    def state_cost(self) -> str:
        return "the position" + (
            "" if self.random_access else "; a resume passes over what was before"
        )

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _CacheIterator(self, epoch) if self._in_order else IndexedIterator(self, epoch)

    @computed_once
    def _in_order(self) -> bool:
        """Whether upstream is iterated: it has no random access, or a stage of it runs ahead."""
        return not self.random_access or any(runs_ahead(one) for one, _ in walk(self.upstream))

    def indexed(self, epoch: int = 0) -> Indexed[T] | None:
        upstream, kept = self.upstream.indexed(0), self.kept
        if upstream is None:
            return None
        items, make = kept.items, upstream.item

        def item(index: int) -> T:
            if index in items:
                return items[index]  # type: ignore[no-any-return]
            made: T = guarded(make(index))
            items[index] = made
            return made

        return Indexed(
            lambda indices: kept.gather(indices.tolist(), upstream),
            item,
            prepare=None
            if upstream.prepare is None
            else partial(_PreparedCachedItems, kept, upstream, known_length(self)),
            needs=upstream.needs,
            items_each=upstream.items_each,
        )


def guarded(item: Any) -> Any:
    """``item`` with read-only arrays, also inside dicts and tuples."""
    if isinstance(item, np.ndarray):
        view = item.view()  # other holders of the array may still write into it
        view.flags.writeable = False
        return view
    if type(item) is dict:
        return {key: guarded(value) for key, value in item.items()}
    if isinstance(item, tuple):
        return getattr(type(item), "_make", tuple)(map(guarded, item))
    return item


@final
@dataclass(eq=False)
class _PreparedCachedItems(PreparedItems[T]):
    """Kept items, and missing items that upstream prepares for many indices at once."""

    kept: CachedItems
    upstream: Indexed[T]
    length: float
    indices: Indices

    def gather(self, places: range) -> Block:
        numbers = self.indices[places.start : places.stop].tolist()
        items = self.kept.items
        if items.keys().isdisjoint(numbers):
            self.kept.keep(numbers, partial(self._of_upstream.gather, places), self.upstream)
        return self.kept.gather(numbers, self.upstream)

    def items(self, places: range) -> Iterator[T]:
        items = self.kept.items
        if len(items) < self.length:
            return self._made(places)
        return map(items.__getitem__, self.indices[places.start : places.stop].tolist())

    def _made(self, places: range) -> Iterator[T]:
        """The items at ``places``; missing items are made."""
        items = self.kept.items
        for place in places:
            number = int(self.indices[place])
            if number not in items:
                items[number] = guarded(next(self._of_upstream.items(range(place, place + 1))))
            yield items[number]

    @computed_once
    def _of_upstream(self) -> PreparedItems[T]:
        return self.upstream.prepared(self.indices)


class _CacheIterator(CountsItems, StageIterator[T]):
    """Hands out kept items, and reads upstream for missing items."""

    _stage: Cache[T]
    _items_held = None

    def __init__(self, stage: Cache[T], epoch: int) -> None:
        self._stage = stage
        self._epoch = epoch
        self._item_position = Position()
        self._upstream = stage.upstream.start(0)
        self._read = 0  # number of items read or skipped in upstream

    @property
    def inputs(self) -> tuple[StageIterator[Any], ...]:
        return (self._upstream,)

    @property
    def epoch(self) -> int:
        return self._epoch

    def pull(self, count: int) -> Block:
        kept = self._left_of_whole()
        if kept is None:
            return list(islice(self._walk(), count))
        self._position = kept[:count].stop
        return list(map(self._stage.kept.items.__getitem__, kept[:count]))

    def items(self) -> Items[T]:
        return Items(chain.from_iterable(self._runs()))

    def _runs(self) -> Iterator[Iterator[T]]:
        """The remaining items: no Python code per item if all are kept."""
        kept = self._left_of_whole()
        if kept is None:
            yield self._walk()
        else:
            yield self._item_position.counting(map(self._stage.kept.items.__getitem__, kept))

    def _left_of_whole(self) -> range | None:
        """The numbers of the remaining items if all items are kept."""
        kept, position = self._stage.kept, self._position
        if kept.length is None or not position <= kept.length == len(kept.items):
            return None
        return range(position, kept.length)

    def _walk(self) -> Iterator[T]:
        kept = self._stage.kept
        items = kept.items
        self._item_position.stop_counting()
        while True:
            for number in takewhile(items.__contains__, itertools.count(self._position)):
                self._item_position.end = number + 1
                yield items[number]
            if self._item_position.end == kept.length:
                break
            for item in self._missing():
                items[self._item_position.end] = item
                self._item_position.end += 1
                yield item
                if self._item_position.end in items:
                    break

    def _missing(self) -> Iterator[T]:
        """Upstream's items from the position on, guarded; sets the length at the end."""
        self._come_to(self._position)
        for item in self._upstream.items():
            self._read += 1
            yield guarded(item)
        self._stage.kept.length = self._read

    def skip(self, count: int) -> int:
        kept, position = self._stage.kept, self._position
        if kept.length is not None and position <= kept.length:
            count = min(count, kept.length - position)
        elif count and position + count - 1 not in kept.items:
            self._come_to(position)
            self._read += self._upstream.skip(position + count - self._read)
            count = self._read - position
        self._position += count
        return count

    def _come_to(self, position: int) -> None:
        """Skip upstream's items before ``position``."""
        self._read += self._upstream.skip(position - self._read)
        if self._read < position:
            raise StateMismatch(
                f"saved position={position} lies beyond the end: upstream has only {self._read} items; "
                "did the data shrink since the save?",
                self._stage,
            )

    def get_state(self) -> State:
        return {"position": self._position}

    def defer_state(self) -> DeferredState:
        return partial(dict, position=self._position)

    def set_state(self, state: State) -> None:
        (position,) = unpack(self._stage, state, "position")
        self._position = unpack_position(self._stage, position, self._stage.length)
