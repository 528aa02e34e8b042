"""Leave out the first items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar, final

from ..core.arguments import check_int
from ..core.block import Block, Indices
from ..core.indexed import IndexedIterator
from ..core.stage import Stage, check_sequential
from ..core.stage_iterator import StageIterator
from ..core.transform import Transform, TransformIterator
from ..errors import StateMismatch, shorten
from ..state.value import State, unpack

__all__ = ["Skip"]

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Skip(Transform[T]):
    """All items but the first ``count``.

    State: O(1). Random access is kept, and skips at no cost; a stream is read past the items
    left out, once, when the first item is asked for.

    Args:
      upstream: stage whose first items are left out.
      count: at least 0.
    """

    identity: ClassVar[tuple[str, ...]] = ("count",)

    count: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "count", check_int("count", self.count, minimum=0))
        check_sequential(self)

    @property
    def random_access(self) -> bool:
        return self.upstream.random_access

    @property
    def length(self) -> int | float | None:
        items = self.upstream.length
        return None if items is None else max(items - self.count, 0)

    @property
    def state_cost(self) -> str:
        return "the position" if self.random_access else "whether it has skipped"

    @property
    def looks_up(self) -> bool:
        return self.random_access

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return IndexedIterator(self, epoch) if self.random_access else _SkipIterator(self, epoch)

    def reindexing(self, epoch: int) -> tuple[Stage[T], Callable[[Indices], Indices]] | None:
        if not self.random_access:
            return None
        count = self.count
        return self.upstream, lambda indices: indices + count


class _SkipIterator(TransformIterator[T]):
    _stage: Skip[T]

    def __init__(self, stage: Skip[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._skipped = False

    def pull(self, count: int) -> Block:
        self._skip_first()
        return self._upstream.pull(count)

    def skip(self, count: int) -> int:
        self._skip_first()
        return self._upstream.skip(count)

    def _skip_first(self) -> None:
        if not self._skipped:
            self._upstream.skip(self._stage.count)
            self._skipped = True

    def get_state(self) -> State:
        return {"skipped": self._skipped, "upstream": self._upstream.get_state()}

    def set_state(self, state: State) -> None:
        skipped, upstream = unpack(self._stage, state, "skipped", "upstream")
        if not isinstance(skipped, bool):
            raise StateMismatch(
                f"saved skipped must be a bool, got {shorten(skipped)}", self._stage
            )
        self._skipped = skipped
        self._upstream.set_state(upstream)
