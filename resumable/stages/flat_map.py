"""Replace every item by any number of items."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar, final

from ..core import SavedState, Stage, StageIterator
from ..core.expansion import ExpandingIterator, close_expansion, expand, items_of
from ..core.fan_out import FansOut, check_fan_out
from ..core.function_state import check_stateless
from ..core.function_version import FunctionVersion
from ..core.replay_point import END
from ..core.stage import InputShadows
from ..errors import MalformedItem
from ..shadows.expanded import ExpandsTraced
from ..shadows.traced import row_origins

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class FlatMap(FansOut[T], FunctionVersion[T]):
    """The items of ``fn(item)`` for every item, one after another.

    State: O(1), upstream's state before the current item, and an offset. A resume reads the current
    item again, calls ``fn`` with it, and skips the outputs already handed out. Skipping costs
    nothing if ``fn`` returns a random-access pipeline. In another pipeline ``iterator.skip`` passes
    over the outputs without calling maps for them.

    With ``size``, random access is kept: item i is made by calling ``fn`` with upstream's item i //
    size. The state is the same with and without ``size``.

    Args:
      upstream: stage whose items are expanded.
      fn: called with an item; returns an iterable or a pipeline, with the same items in every run.
      size: number of items that ``fn`` returns for each item, at least 1; None if the number varies
        or is unknown.
      fn_version: a string or a number; change this value whenever the function's results change. A
        state saved with another version is refused.

    Raises:
      InvalidType: if ``fn`` cannot be called; while iterating, if ``fn`` returns no iterable.
      InvalidArgument: if ``fn`` carries state, or ``size`` is less than 1 or makes more than 2**62
        items.
      MalformedItem: while iterating, if ``fn`` returns more or fewer than ``size`` items.

    >>> list(rs.from_sequence(["a b", "c"]).flat_map(str.split))
    ['a', 'b', 'c']
    >>> rs.range(10).flat_map(lambda number: (number, -number), size=2)[7]
    -3
    """

    state_cost = SavedState(
        "an offset; a resume reads the item it is inside again", resumes_before=True
    )

    fn: Callable[[Any], Iterable[T]]
    _: KW_ONLY
    size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stateless("fn", self.fn)

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        if self.size is None or inputs.paired:
            fn = ExpandsTraced(self.fn, numbered=self.size is not None)
            return replace(self, upstream=inputs.pairs[0], fn=fn)
        parts: Callable[[Any], Any] = partial(row_origins, self.size, in_order=False)
        return replace(self, upstream=inputs.alike[0], fn=parts)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        fn = self.fn if self.size is None else self._expansion(self.size, epoch)
        return ExpandingIterator(self, epoch, fn)

    def _expansion(self, size: int, epoch: int) -> Callable[[Any], list[T]]:
        return partial(self._made, size, epoch)

    def _made(self, size: int, epoch: int, item: Any) -> list[T]:
        """The ``size`` items of ``fn(item)``."""
        expansion = expand(self.fn(item), epoch, 0, self)
        items = iter(items_of(expansion))
        try:
            made = list(islice(items, size))
            has_more = next(items, END) is not END
        finally:
            close_expansion(expansion)
        if has_more:
            raise MalformedItem(f"each item must make size={size} items, got one that makes more")
        check_fan_out(size, len(made))
        return made
