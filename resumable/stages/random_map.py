"""Apply a function that draws random numbers, the same for an item in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar, TypeVar, final

import numpy as np

from ..core import (
    ALWAYS,
    ITEMS,
    NOTHING,
    PARTS,
    SEED,
    Dependence,
    IdentityField,
    IdentityFields,
    SavedState,
    Stage,
    StageIterator,
    check_seed,
    computed_once,
)
from ..core.arguments import check_field
from ..core.callables import StandIn
from ..core.reach import Reach
from ..core.skipped import skipped_items
from ..core.transform import ForwardingIterator
from ..errors import StateMismatch
from ..order.random_bits import generator
from ..state.value import State
from ..workers.tally import SkipListener
from .global_order import Placed, Places, dealt_order, is_dealt
from .map import CallsPerItem
from .partition import has_partitions
from .placing import (
    DrawsInPartition,
    copied_from,
    keeps_places,
    makes_one_of_one,
    with_places,
)

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class RandomMap(CallsPerItem[T]):
    """The result of ``fn(item, rng)`` for every item.

    ``rng`` is a `numpy.random.Generator` made from (seed, epoch, place of the item in the global
    order). So an item meets the same randomness in every run, with any workers. Before and after
    ``shard`` the place is the same, so the number of ranks may change too. If a stage between
    ``shard`` and this stage drops, adds or groups items, ranks still draw different numbers, but
    only a run with the same number of ranks repeats the numbers. An item repeated by
    ``uneven="pad"`` has a separate place each time.

    After a ``partition``, before or after its ``shard``, the place is the number of the partition
    and the item's position in the partition. So the place depends neither on the ranks nor on the
    partitions that have ended. An item repeated by ``uneven="pad"`` has the same place again. Only
    ``map``, ``filter``, ``prefetch`` and ``repeat`` may stand between. With any other stage there,
    a function that carries state, or ``on_error="skip"``, the number of ranks is fixed.

    State: O(1), the place, upstream's state, and the function's. If items may be dropped, also the
    numbers of items tried and dropped. After a ``partition`` no place is saved. Random access is
    kept unless items may be dropped or the function carries state.

    Args:
      upstream: stage whose items are mapped.
      fn: called with an item and its generator.
      seed: in [0, 2**64).
      fn_version: a string or a number; change this value whenever the function's results change. A
        state saved with another version is refused.
      workers: number of threads or processes for ``fn``, 0 for none, as in `Map`.
      executor: where the workers are, as in `Map`: ``"thread"``, ``"process"`` or an executor.
      on_error: ``"raise"`` passes an exception of ``fn`` on, ``"skip"`` drops the item.
      on_skip: with ``"skip"``, called as ``on_skip(number, error)`` for each item dropped.

    Raises:
      InvalidType: if ``fn`` cannot be called.
      InvalidArgument: if ``seed`` is out of range, and where `Map` raises it.

    >>> pipeline = rs.range(3).random_map(lambda item, rng: item + rng.random(), seed=1)
    >>> list(pipeline) == list(pipeline)
    True
    """

    identity: ClassVar[IdentityFields] = {
        "seed": SEED,
        **CallsPerItem.identity,
        "over_ranks": IdentityField(
            ALWAYS,
            shown_as="seed by rank",
            hint="was a shard added or removed before it? An earlier version gave every rank "
            "the same random numbers, and this version cannot continue them",
        ),
        "over_partitions": IdentityField(
            ALWAYS,
            shown_as="seed by partition",
            hint="was a partition added or removed before it? Version 0.2 gave an item behind "
            "partitions random numbers that depended on the number of ranks, and this version cannot continue "
            "them",
        ),
    }

    _: KW_ONLY
    seed: int = 0
    # Whether places are counted in an order that `shard` dealt out. Earlier versions counted the
    # items of each rank separately.
    over_ranks: bool = field(init=False, repr=False, default=False)
    # Whether places are counted in the partition of an item. Version 0.2 counted the items of each
    # rank.
    over_partitions: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        check_field(self, "seed", check_seed)
        super().__post_init__()
        object.__setattr__(self, "over_ranks", is_dealt(self.upstream))
        over_partitions = makes_one_of_one(self) and keeps_places(self.upstream)
        object.__setattr__(self, "over_partitions", over_partitions)

    @property
    def depends_on(self) -> Dependence:  # type: ignore[override]
        """Items with the same places in the shared order may have other numbers here.

        If the items of a rank are counted, the rank must keep its partitions.
        """
        own = super().depends_on
        if dealt_order(self.upstream) is not None:
            return own
        counts_parts = has_partitions(self.upstream) and not self.over_partitions
        return own | ITEMS | (PARTS if counts_parts else NOTHING)

    @property
    def state_cost(self) -> SavedState:
        text, levels, _ = super().state_cost
        if not self.over_partitions:
            text = "the position" if text == "nothing" else f"the position and {text}"
        return SavedState(text, levels + self.drops)

    @property
    def skip_listener(self) -> SkipListener | None:
        listener = super().skip_listener
        return listener and partial(_tell_of_placed, listener)

    @property
    def _needs_pairs(self) -> bool:
        return self.over_partitions

    @computed_once
    def read(self) -> Stage[Any]:
        if self.over_partitions:
            return with_places(self.upstream)
        return Places(self.upstream, seed=self.seed)

    @property
    def called(self) -> Callable[[Any], T]:
        if self.over_partitions:
            return DrawsInPartition(self.fn, self.seed)
        return _WithGenerator(self.fn)

    def start_calling(self, epoch: int) -> StageIterator[T]:
        mapped = super().start_calling(epoch)
        if self.over_partitions:
            return _OverPartitionsIterator(self, mapped)
        return _RandomMapIterator(self, mapped)


class _MappedIterator(ForwardingIterator[T]):
    """Moves as a map over `RandomMap.read`."""

    _stage: RandomMap[T]

    def __init__(self, stage: RandomMap[T], mapped: StageIterator[T]) -> None:
        self._stage = stage
        self._upstream = mapped


class _OverPartitionsIterator(_MappedIterator[T]):
    """A map over copies of the earlier stages, which deliver items with their places."""

    def set_state(self, state: State) -> None:
        try:
            self._upstream.set_state(state)
        except StateMismatch as error:
            found = copied_from(self._stage.upstream, self._stage.read, error.stage)
            error.stage = found or error.stage
            raise

    def _reached(self) -> Iterator[Reach]:
        for found in super()._reached():
            original = copied_from(self._stage.upstream, self._stage.read, found.stage)
            yield found if original is None else found._replace(stage=original)

    def _skipped_in_copies(self, path: str) -> Iterator[Mapping[str, int]]:
        (reading,) = self._upstream.inputs
        yield skipped_items(self._stage.read, reading, path)


class _RandomMapIterator(_MappedIterator[T]):
    """A map over `Places`; the state is that of `Places` if the map adds nothing to it."""

    def __init__(self, stage: RandomMap[T], mapped: StageIterator[T]) -> None:
        super().__init__(stage, mapped)
        self._flat = not stage.drops

    def state_at(self, offset: int) -> tuple[State, int] | None:
        found = self._upstream.state_at(offset)
        return found and (self._outside(found[0]), found[1])

    def get_state(self) -> State:
        return self._outside(self._upstream.get_state())

    def set_state(self, state: State) -> None:
        try:
            self._upstream.set_state({"upstream": state} if self._flat else state)
        except StateMismatch as error:
            if error.stage is self._stage.read:  # not written by the user
                error.stage = self._stage
            raise

    def _outside(self, state: State) -> State:
        inner: State = state["upstream"] if self._flat else state
        return inner


def _tell_of_placed(listener: SkipListener, number: int, error: Exception, placed: Placed) -> None:
    listener(number, error, placed[-1])


@final
class _WithGenerator(StandIn[Callable[[Any, np.random.Generator], Any]]):
    """Calls a function with an item and the generator of its place; sent to workers."""

    def __call__(self, placed: Placed) -> Any:
        key, place, item = placed
        return self.fn(item, generator(key, place))
