"""Begin an input of a mix again whenever it ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar, final

from ..core.derived import derived
from ..core.stage import Reliance, Stage
from ..core.stage_iterator import StageIterator
from ..errors import InvalidArgument
from .repeat import Repeat, RepeatIterator

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Cycle(Repeat[T]):
    """An endless `Repeat` of an upstream of a mix that ends once all have been gone through.

    Only `rs.mix` with ``stop="cycle"`` makes it. No pass may be without items.

    State: O(1), the number of passes finished and upstream's state. Random access is kept.

    Args:
      upstream: an input of the mix, not known to be endless.

    Raises:
      InvalidArgument: if ``upstream`` has no items; while iterating, if a pass has none.

    >>> mixed = rs.mix(rs.range(2), rs.range(10, 14), stop="cycle")
    >>> mixed.stage.inputs[0], list(mixed)
    (Range(stop=2) -> Cycle(), [0, 10, 1, 11, 0, 12, 1, 13, 0])
    """

    identity: ClassVar[Mapping[str, Reliance]] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.upstream.length == 0:
            raise InvalidArgument(_without_items("which has none", self.upstream))

    @derived
    def length(self) -> int | float | None:
        return None if self.upstream.length is None else math.inf

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return CycleIterator(self, epoch)


def cycled(upstream: Stage[T]) -> Stage[T]:
    """``upstream`` without an end."""
    if isinstance(upstream, Cycle) or upstream.length == math.inf:
        return upstream
    return Cycle(upstream)


@final
class CycleIterator(RepeatIterator[T]):
    """Motion through one pass after the other.

    Attributes:
      waits: whether the second pass begins only when `begin_again` is called. Until then this
        iterator has no more items than the first pass.
    """

    waits = False

    @property
    def in_first_pass(self) -> bool:
        """Whether the second pass has not begun."""
        return self._pass == 0

    @property
    def epoch(self) -> int:
        # The mix is in one epoch, though its inputs may be in several.
        return self._start_epoch

    def begin_again(self) -> None:
        """Begin the second pass."""
        self.waits = False
        self._next_pass()

    def _next_pass(self) -> bool:
        if not self._delivered:
            raise InvalidArgument(
                _without_items(f"which has none in pass {self._pass}", self._stage.upstream)
            )
        return not (self.waits and self.in_first_pass) and super()._next_pass()


def _without_items(what: str, upstream: Stage[T]) -> str:
    return (
        f"a mix with stop='cycle' needs items of each pipeline, got {upstream!r}, {what}; "
        "leave it out, or use stop='all'"
    )
