"""Count from start to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from ..core.arguments import check_int
from ..core.block import Block, Indices
from ..core.evidence import UNKNOWN, Evidence
from ..core.identity import ALWAYS, IdentityField, IdentityFields
from ..core.indexed import Indexed
from ..core.layout import INTEGERS
from ..core.lookup import LookedUp
from ..core.orders import MOST_ITEMS
from ..errors import InvalidArgument, shorten
from .identity import LENGTH

INT64: Any = np.iinfo(np.int64)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Range(LookedUp[int]):
    """The integers ``begin``, ``begin + step``, ... before ``stop``, like the built-in `range`.

    Blocks are int64 arrays, items are ints.

    State: O(1), the position. Random access.

    Args:
      stop: the end, excluded.
      begin: first integer.
      step: distance between items, not 0.

    Raises:
      InvalidArgument: if ``step`` is 0, an item lies beyond int64, or the range has more than 2**62
        items.
      InvalidType: if an argument is not an integer.

    >>> list(rs.range(2, 9, 3))
    [2, 5, 8]
    """

    identity: ClassVar[IdentityFields] = {
        "stop": LENGTH,
        "begin": IdentityField(ALWAYS, shown_as="start"),
        "step": ALWAYS,
        "rows": ALWAYS,
    }
    block_layout = INTEGERS
    state_cost = "the position"

    stop: int
    _: KW_ONLY
    begin: int = 0
    step: int = 1
    # For rows numbered by the integers; states of earlier versions have no evidence of rows.
    rows: Evidence = field(repr=False, default=UNKNOWN)

    def __post_init__(self) -> None:
        step = _check_int64("step", self.step)
        begin = _check_int64("start", self.begin)
        # `stop` need not fit in int64, as it may lie up to one step beyond the last item.
        stop = check_int("stop", self.stop, minimum=2 * INT64.min, maximum=2 * INT64.max)
        if step == 0:
            raise InvalidArgument("step must not be 0, got 0")
        count = max(0, -((begin - stop) // step))
        if count > MOST_ITEMS:
            raise InvalidArgument(f"range must have at most 2**62 items, got {count}")
        last = begin + (count - 1) * step
        if count and not (INT64.min <= min(begin, last) and max(begin, last) <= INT64.max):
            raise InvalidArgument(f"items must fit in int64, got start={begin}, stop={stop}")
        for name, value in (("begin", begin), ("stop", stop), ("step", step)):
            object.__setattr__(self, name, value)

    @property
    def length(self) -> int:
        return max(0, -((self.begin - self.stop) // self.step))

    def indexed(self, epoch: int = 0) -> Indexed[int]:
        begin, step = self.begin, self.step
        gather_range: Callable[[int, int], Block] | None = None
        # The number after the last item is computed too.
        if INT64.min <= begin + step * self.length <= INT64.max:

            def gather_range(start: int, stop: int) -> Block:
                return np.arange(begin + step * start, begin + step * stop, step, dtype=np.int64)

        return Indexed(
            self._gather,
            lambda index: begin + step * index,
            self._span,
            gather_range=gather_range,
            every_epoch=True,
        )

    def _gather(self, indices: Indices) -> Block:
        if self.step == 1 and self.begin == 0:
            return indices.copy()
        return indices * self.step + self.begin

    def _span(self, start: int, stop: int) -> Sequence[int]:
        begin, step = self.begin, self.step
        return range(begin + start * step, begin + stop * step, step)


def _check_int64(name: str, value: Any) -> int:
    number = check_int(name, value, maximum=None)
    if not INT64.min <= number <= INT64.max:
        raise InvalidArgument(f"{name} must fit in int64, got {shorten(number)}")
    return number
