"""Replace every item by any number of items."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, final

from ..core import (
    ITEMS,
    PARTS,
    RANK,
    Flow,
    FunctionVersion,
    Reliance,
    SavedState,
    StageIterator,
    check_stateless,
)
from ..core.expansion import ExpandingIterator

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class FlatMap(FunctionVersion[T]):
    """The items of ``fn(item)`` for every item, one after another.

    State: O(1), upstream's state before the current item, and an offset. A resume reads that
    item again, calls ``fn`` with it, and skips what was handed out. Skipping costs nothing if
    ``fn`` returns a random-access pipeline. In another pipeline it is done by ``iterator.skip``,
    which calls no map for the items it skips.

    Args:
      upstream: stage whose items are expanded.
      fn: called with one item; returns an iterable or a pipeline, with the same items in every run.
      fn_version: a string or a number; change it whenever the function's results change. A state
        saved with another one is refused.

    Raises:
      InvalidType: if ``fn`` cannot be called; while iterating, if it returns no iterable.
      InvalidArgument: if ``fn`` carries state of its own.

    >>> list(rs.from_sequence(["a b", "c"]).flat_map(str.split))
    ['a', 'b', 'c']
    """

    flow = Flow.EXPANDED
    relies_on: ClassVar[Reliance] = ITEMS | PARTS | RANK
    state_cost = SavedState(
        "an offset; a resume reads the item it is inside again", resumes_before=True
    )

    fn: Callable[[Any], Iterable[T]]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stateless("fn", self.fn)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return ExpandingIterator(self, epoch, self.fn)
