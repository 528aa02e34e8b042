"""Keep the items that a predicate accepts."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from itertools import count as count_from
from typing import Any, ClassVar, Final, TypeVar, final

from ..core import (
    RANK,
    Block,
    CallsFunction,
    Dependence,
    Held,
    Items,
    OwnStateIterator,
    Relation,
    SourceItem,
    Stage,
    StageIterator,
    block_items,
    map_items,
)
from ..core.block import concatenate, take_rows
from ..core.function_version import FunctionVersion
from ..core.relation import endless
from ..core.run_changes import RunChanges
from ..core.stage import InputShadows
from ..shadows.traced import AsksTraced, calling

T = TypeVar("T")

MOST_DROPPED: Final = 100_000
"""A warning comes if this many items of an epoch are dropped before the first is passed on."""


@dataclass(frozen=True, eq=False, repr=False)
class ByPredicate(FunctionVersion[T], CallsFunction[T]):
    """A stage that delivers items by the result of ``predicate``."""

    calls: ClassVar[str] = "predicate"

    predicate: Callable[[Any], object]

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        return calling(self, AsksTraced, upstream=inputs.pairs[0])


@final
@dataclass(frozen=True, eq=False, repr=False)
class Filter(ByPredicate[T]):
    """The items for which ``predicate`` is true.

    State: upstream's, and the predicate's if the predicate carries state. No random access: the
    remaining items are known only by calling ``predicate``. If the predicate refuses the first
    100,000 items of an epoch, or the first 100,000 after a resume, one `RuntimeWarning` is issued.

    Args:
      upstream: stage whose items are tested.
      predicate: called with an item.
      fn_version: a string or a number; change this value whenever the function's results change. A
        state saved with another version is refused.

    Raises:
      InvalidType: if ``predicate`` cannot be called.

    >>> list(rs.range(6).filter(lambda item: item % 2))
    [1, 3, 5]
    """

    unchanged = True
    alone = True
    depends_on: ClassVar[Dependence] = RANK
    _run_changes = RunChanges(
        if_added="exclude, unlike filter, can leave records out of a run that has begun"
    )

    def relation(self, epoch: int) -> Relation:
        return Held(self, epoch, items=endless(self))

    def start_calling(self, epoch: int) -> StageIterator[T]:
        return _FilterIterator(self, epoch)


class _FilterIterator(OwnStateIterator[T]):
    _stage: Filter[T]

    # Items dropped before the first passed item; below 0 afterwards, and after the warning.
    _dropped = 0
    # The numbers of the passed items among the first `_read` items of the last `pull`. `_tested`
    # has the results of the predicate for the items after the first `_read`.
    _read = 1
    _passed: Sequence[int] = (0,)
    _tested: Sequence[list[object]] = ()

    def pull(self, count: int) -> Block:
        kept: list[Block] = []
        tested: list[list[object]] = []
        self._tested, self._passed, self._read = tested, [], 0
        predicate = self._stage.predicate
        missing = count
        while missing:
            block = self._upstream.pull(missing)
            items = block_items(block)
            flags = map_items(predicate, items, self)
            tested.append(flags)
            rows = list(compress(items if block is items else range(len(items)), flags))
            if self._dropped >= 0:
                self._note(len(items), passed=bool(rows))
            kept.append(rows if block is items else take_rows(block, rows))
            if 8 * len(rows) < len(items):
                # Any number of items may be dropped, so nothing of the block is kept.
                self._count_tested()
                tested.clear()
                if not rows and len(kept) > 1:
                    kept.pop()
            if len(items) < missing:
                break
            missing -= len(rows)
        return concatenate(kept)

    def origin(self, back: int) -> SourceItem | None:
        self._count_tested()
        self._tested = ()
        if back > len(self._passed):
            return None
        found = self._upstream.origin(self._read - self._passed[-back])
        return found and found._replace(place=None)

    def _count_tested(self) -> None:
        numbers = compress(count_from(self._read), chain.from_iterable(self._tested))
        if isinstance(self._passed, list):  # else nothing was tested yet
            self._passed.extend(numbers)
        self._read += sum(map(len, self._tested))

    def items(self) -> Items[T]:
        self.one_by_one, self._tested, self._passed, self._read = True, [], [0], 1
        kept = partial(builtins.filter, self._stage.predicate)
        if self._dropped < 0:
            return self._upstream.items().through(kept)
        return self._upstream.items().through(lambda items: chain(self._first(items), kept(items)))

    def _first(self, items: Iterator[T]) -> Iterator[T]:
        """The first of ``items`` that passes, if any."""
        predicate = self._stage.predicate
        for item in items:
            try:
                passed = bool(predicate(item))
            except StopIteration as error:
                raise RuntimeError("a user function raised StopIteration") from error
            if self._dropped >= 0:
                self._note(1, passed=passed)
            if passed:
                yield item
                return

    def _note(self, tested: int, *, passed: bool) -> None:
        """Count the items dropped before the first passed item; warn if too many."""
        self._dropped = -1 if passed else self._dropped + tested
        if self._dropped >= MOST_DROPPED:
            self._dropped = -1
            warnings.warn(
                f"{self._stage} has dropped {MOST_DROPPED:,} items without passing one on since the "
                "epoch began or was resumed; is its predicate the wrong way round?",
                RuntimeWarning,
                stacklevel=2,
            )
