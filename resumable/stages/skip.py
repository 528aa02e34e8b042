"""Leave out the first items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar, final

from ..core import (
    ALWAYS,
    ITEMS,
    PARTS,
    Block,
    Dependence,
    IdentityFields,
    Items,
    LookedUp,
    OwnStateIterator,
    Relation,
    Sliced,
    StageIterator,
    Transform,
    check_int,
)
from ..core.arguments import check_field
from ..state.value import State, unpack, unpack_flag

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Skip(LookedUp[T], Transform[T]):
    """All items but the first ``count``.

    State: O(1), the position. Over a stream, upstream's state and whether items were skipped.
    Random access is kept, and skips at no cost. The left-out items of a stream are read once, when
    the first item is asked for.

    Args:
      upstream: stage whose first items are left out.
      count: at least 0.

    Raises:
      InvalidArgument: if ``count`` is below 0.
      InvalidType: if ``count`` is not an integer.

    >>> list(rs.range(5).skip(3))
    [3, 4]
    """

    identity: ClassVar[IdentityFields] = {"count": ALWAYS}
    depends_on: ClassVar[Dependence] = ITEMS | PARTS

    count: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "count", check_int, minimum=0)

    def relation(self, epoch: int) -> Relation:
        return Sliced(self, epoch, start=self.count)

    @property
    def state_cost(self) -> str:
        return "the position" if self.random_access else "whether it has skipped"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return super().start(epoch) if self.random_access else _SkipIterator(self, epoch)


class _SkipIterator(OwnStateIterator[T]):
    _stage: Skip[T]

    def __init__(self, stage: Skip[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._begun = False  # whether upstream is past the left-out items

    def pull(self, count: int) -> Block:
        self._begin()
        return self._upstream.pull(count)

    def items(self) -> Items[T]:
        self._begin()
        return self._upstream.items()

    def skip(self, count: int) -> int:
        self._begin()
        return self._upstream.skip(count)

    def _begin(self) -> None:
        if not self._begun:
            self._upstream.skip(self._stage.count)
            self._begun = True

    def get_state(self) -> State:
        return {"skipped": self._begun, "upstream": self._upstream.get_state()}

    def own_state(self) -> State:
        return {"skipped": self._begun}

    def set_state(self, state: State) -> None:
        skipped, upstream = unpack(self._stage, state, "skipped", "upstream")
        self._begun = unpack_flag(self._stage, "skipped", skipped)
        self._upstream.set_state(upstream)
