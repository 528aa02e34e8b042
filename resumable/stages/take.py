"""Stop after a number of items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Final, TypeVar, final

from ..core import (
    ITEMS,
    PARTS,
    Block,
    CountingIterator,
    Dependence,
    IdentityField,
    IdentityFields,
    Items,
    Length,
    Relation,
    Sliced,
    StageIterator,
    Transform,
    block_length,
    check_int,
)
from ..core.arguments import check_field
from ..core.identity import COUNT_HINT, OVER_EPOCHS

T = TypeVar("T")

COUNT_EACH_HINT: Final = (
    "exclude behind repeat counts the items of all epochs, so it may change only in the first, and to no "
    "less than was read there"
)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Take(Transform[T]):
    """The first ``count`` items, or all of a shorter upstream.

    ``count`` may be raised on resume, unless a later stage counts or shuffles items: training
    continues where it stopped. A count below the saved position is refused. If a ``repeat`` and an
    ``exclude`` follow, the ``exclude`` counts the items of all epochs, so ``count`` may change only
    in the first epoch.

    State: O(1), the position and upstream's. Random access is kept.

    Args:
      upstream: stage whose first items are taken.
      count: at least 0.

    Raises:
      InvalidArgument: if ``count`` is below 0.
      InvalidType: if ``count`` is not an integer.

    >>> list(rs.range(9).take(3))
    [0, 1, 2]
    """

    identity: ClassVar[IdentityFields] = {
        "count": IdentityField(ITEMS, hint=COUNT_HINT),
        "count_each": IdentityField(OVER_EPOCHS, shown_as="count", hint=COUNT_EACH_HINT),
    }
    depends_on: ClassVar[Dependence] = ITEMS | PARTS
    state_cost = "the position"

    count: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "count", check_int, minimum=0)

    def relation(self, epoch: int) -> Relation:
        return Sliced(self, epoch, stop=self.count)

    @property
    def count_each(self) -> int:
        """The number of items of each epoch; ``count`` where the number is unknown."""
        return self.count if self.length is None else int(self.length)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _TakeIterator(self, epoch)


class _TakeIterator(CountingIterator[T]):
    _stage: Take[T]

    @property
    def _items_delivered(self) -> int:
        return self._position

    def pull(self, count: int) -> Block:
        count = min(count, self._stage.count - self._position)
        if count <= 0:
            return []
        block = self._upstream.pull(count)
        self._position += block_length(block)
        return block

    def items(self) -> Items[T]:
        # Upstream is not asked for anything after the last item.
        left = max(self._stage.count - self._position, 0)
        return Items(self._item_position.counting(islice(self._upstream.items(), left)))

    def blocks(self, size: int) -> Iterator[Block]:
        last, place = self._stage.count, self._item_position
        place.stop_counting()
        whole, rest = divmod(last - place.end, size)
        # As in `items`, the range comes first, so no block is asked for after the last.
        for _, block in zip(range(whole), self._upstream.blocks(size), strict=False):
            length = block_length(block)
            place.end += length
            yield block
            if length < size:
                return
        if place.end == last - rest and block_length(block := self.pull(rest)):
            yield block

    def skip(self, count: int) -> int:
        return self.skip_counted(max(min(count, self._stage.count - self._position), 0))

    def _limit(self) -> Length:
        return self._stage.count
