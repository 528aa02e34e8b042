"""Deal the items out to ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, ClassVar, Final, TypeVar, final

import numpy as np

from ..core import (
    ITEMS,
    RANK,
    Block,
    IdentityField,
    IdentityFields,
    IndexedIterator,
    Items,
    OwnStateIterator,
    Relation,
    Sliced,
    SourceItem,
    Stage,
    StageIterator,
    block_length,
)
from ..core.arguments import check_below, check_choice
from ..core.block import concatenate, take_rows
from ..core.identity import COUNT_HINT, ENDS
from ..core.made_of import epoch_at
from ..core.orders import countable
from ..core.reach import Reach, reached_by_index
from ..core.stage import known_length
from ..errors import InvalidArgument
from ..state.value import State, unpack, unpack_position
from .dealing import Deals
from .skip import Skip

T = TypeVar("T")

ITEMS_AT_ONCE = 1 << 16
MOST_OVER_STREAM = 1 << 20
MISSING: Final = object()


@final
@dataclass(frozen=True, eq=False, repr=False)
class Shard(Deals[T]):
    """Every ``count``-th item: round r gives rank i the item r * count + i.

    State: O(1), the global position of the round. The state is the same on every rank, so one rank
    can save for all. Ranks that resume with another ``count`` together continue the global order,
    without loss or repetition. Random access is kept. Over a stream each rank reads all items.

    If a later stage takes more items on one rank than on another (``filter``, ``flat_map``), each
    rank can resume only from its own state, with the same ``index`` and ``count``. So put
    ``filter`` and ``flat_map`` before ``shard``.

    Args:
      upstream: the global order, the same on every rank.
      index: this rank, from 0 to ``count`` - 1.
      count: number of ranks, at least 1; over a stream at most 2**20.
      uneven: a last round with fewer items than ranks is left out (``"drop"``), filled up by
        repeating its items (``"pad"``), or given to the first ranks only (``"keep"``).

    Raises:
      InvalidArgument: if a number is out of range, or ``uneven`` is another word.
      InvalidType: if ``index`` or ``count`` is not an integer.

    >>> list(rs.range(7).shard(1, 3, uneven="keep"))
    [1, 4]
    """

    identity: ClassVar[IdentityFields] = {
        "index": IdentityField(
            RANK,
            hint="a stage or a function after it holds something of its rank or takes more items on one rank "
            "than on another, so each rank resumes from its own state",
            names_rank=True,
        ),
        "index_at_end": IdentityField(ENDS, shown_as="index"),
        "count": IdentityField(ITEMS | RANK, hint=COUNT_HINT),
        "uneven": ITEMS | RANK,
    }
    _: KW_ONLY
    uneven: str = "drop"
    # The index, where ranks may end at different steps; None elsewhere.
    index_at_end: int | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        index, count = check_below("index", self.index, "count", self.count)
        check_choice("uneven", self.uneven, ("drop", "pad", "keep"))
        if count > MOST_OVER_STREAM and not self.upstream.random_access:
            raise InvalidArgument(
                f"count must be at most {MOST_OVER_STREAM} over a stream, since a round of it is "
                f"held in memory, got {count}"
            )
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "index", index)
        length = self.upstream.length
        if self.uneven == "keep" and (length is None or length % count > 0):
            object.__setattr__(self, "index_at_end", index)

    def relation(self, epoch: int) -> Relation:
        items, count = self.upstream.length, self.count
        if items is None or items == math.inf:
            return Sliced(self, epoch, start=self.index, step=count, by_ranks=True)
        rounds, rest = divmod(int(items), count)
        place = self.place_in_last(rest)
        return Sliced(
            self,
            epoch,
            start=self.index,
            step=count,
            by_ranks=True,
            items=rounds + (place is not None),
            last=None if place is None else (rounds, rounds * count + place),
        )

    def is_own(self, state: Any) -> bool:
        """Whether a ``state`` without a rank must belong to this rank, the only one."""
        return self.count == 1

    @property
    def state_cost(self) -> str:
        if self.random_access:
            return "the position of the round in the global order"
        return "nothing"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        if self.random_access:
            return _IndexedShardIterator(self, epoch)
        return _StreamShardIterator(self, epoch)

    def place_in_last(self, rest: int) -> int | None:
        """Which of the ``rest`` items of a short last round goes to this rank; None for none."""
        if rest == 0 or self.uneven == "drop":
            return None
        if self.uneven == "pad":
            return self.index % rest
        return self.index if self.index < rest else None


class _IndexedShardIterator(StageIterator[T]):
    """Over random access: the position is where the round begins in the global order."""

    # Rounds are counted from the position of the last resume, not always a multiple of `count`: the
    # rest of the global order is dealt out as a separate pipeline.

    _stage: Shard[T]

    def __init__(self, stage: Shard[T], epoch: int) -> None:
        self._stage = stage
        self._start_epoch = epoch
        self._ended = False
        self._deal_from(0)

    def pull(self, count: int) -> Block:
        block = self._rest.pull(count)
        self._ended = block_length(block) < count
        return block

    def skip(self, count: int) -> int:
        passed = self._rest.skip(count)
        self._ended = passed < count
        return passed

    def items(self) -> Items[T]:
        return self._rest.items()

    def blocks(self, size: int) -> Iterator[Block]:
        return self._rest.blocks(size)

    def origin(self, back: int) -> SourceItem | None:
        found = self._rest.origin(back)
        return found and found._replace(place=None)  # the place would count from the last resume

    @property
    def inputs(self) -> Sequence[StageIterator[Any]]:
        return (self._rest,)

    @property
    def epoch(self) -> int:
        if self._rest.position or not self._base:
            return self._rest.epoch
        # The last item was handed out before the resume, to some rank.
        found = epoch_at(self._stage.upstream, self._start_epoch, self._base - 1)
        return self._start_epoch if found is None else found.epoch

    @property
    def _items_delivered(self) -> int:
        stage = self._stage
        rounds = -(-self.get_state()["position"] // stage.count)
        return int(min(rounds, known_length(stage)))

    def _place_by_index(self) -> tuple[Stage[Any], int, int]:
        position: int = self.get_state()["position"]
        stage = self._stage
        if stage.uneven == "drop" and position == stage.upstream.length:
            position -= position % stage.count  # a short last round is left out
        return stage.upstream, self._start_epoch, position

    def _reached(self) -> Iterator[Reach]:
        upstream, position = self._stage.upstream, self.get_state()["position"]
        return reached_by_index(upstream, position + (position == upstream.length))

    def get_state(self) -> State:
        length = countable(known_length(self._stage.upstream))
        position = self._base + self._rest.position * self._stage.count
        ended = self._ended or self._rest.at_end
        return {"position": length if ended else min(position, length)}

    def set_state(self, state: State) -> None:
        (position,) = unpack(self._stage, state, "position")
        self._deal_from(unpack_position(self._stage, position, self._stage.upstream.length))

    def _deal_from(self, position: int) -> None:
        stage = self._stage
        rest = Skip(stage.upstream, position) if position else stage.upstream
        dealt: Shard[T] = Shard(rest, stage.index, stage.count, uneven=stage.uneven)
        self._base = position
        self._rest: IndexedIterator[T] = IndexedIterator(dealt, self._start_epoch)


class _StreamShardIterator(OwnStateIterator[T]):
    """Over a stream: whole rounds are read, and upstream's state is the state before the round."""

    _stage: Shard[T]

    def pull(self, count: int) -> Block:
        stage = self._stage
        blocks: list[Block] = []
        while count:
            rounds = min(count, max(ITEMS_AT_ONCE // stage.count, 1))
            block = self._upstream.pull(rounds * stage.count)
            complete, rest = divmod(block_length(block), stage.count)
            end = complete * stage.count
            blocks.append(_every(block, range(stage.index, end, stage.count)))
            count -= complete
            place = stage.place_in_last(rest)
            if place is not None:
                blocks.append(take_rows(block, [end + place]))
                count -= 1
            if complete < rounds:
                break
        return concatenate(blocks)

    def items(self) -> Items[T]:
        if self._stage.uneven == "drop":
            # `zip` leaves a short last round out too.
            rounds = zip(*[iter(self._upstream.items())] * self._stage.count, strict=False)
            return Items(map(itemgetter(self._stage.index), rounds))
        return Items(self._ours())

    def _ours(self) -> Iterator[T]:
        index, count = self._stage.index, self._stage.count
        # A short last round is filled up, even if empty.
        dealt_out = chain(self._upstream.items(), repeat(MISSING, count))
        for dealt in zip(*[dealt_out] * count, strict=False):
            if dealt[-1] is MISSING:
                break
            yield dealt[index]
        place = self._stage.place_in_last(sum(item is not MISSING for item in dealt))
        if place is not None:
            yield dealt[place]


def _every(block: Block, places: range) -> Block:
    """The items of ``block`` at ``places``."""
    if isinstance(block, list):
        return block[places.start : places.stop : places.step]
    return take_rows(block, np.arange(places.start, places.stop, places.step))
