"""The bases of stages with one upstream, and of their iterators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ..state.value import State, unpack, unpack_count
from .stage import Stage, as_stage
from .stage_iterator import StageIterator

__all__ = ["CountingIterator", "IndexedTransform", "Transform", "TransformIterator"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Transform(Stage[T]):
    """A stage with one upstream."""

    upstream: Stage[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "upstream", as_stage(self.upstream, "upstream"))

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return (self.upstream,)


@dataclass(frozen=True, eq=False, repr=False)
class IndexedTransform(Transform[T]):
    """A stage with one upstream that delivers one item for each, and looks items up as it does.

    A subclass implements `gather`.
    """

    @property
    def random_access(self) -> bool:
        return self.upstream.random_access

    @property
    def length(self) -> int | float | None:
        return self.upstream.length


class TransformIterator(StageIterator[T]):
    """Motion of a stage with one upstream and no position of its own."""

    def __init__(self, stage: Transform[T], epoch: int) -> None:
        self._stage = stage
        self._upstream: StageIterator[Any] = stage.upstream.start(epoch)
        self._upstream_ended: bool | None = None  # None where upstream tells by itself

    def upstream_items(self) -> Iterator[Any]:
        """Upstream's items for a built-in `map` or `filter`, with a note of their true end."""
        items = self._upstream.items()
        if type(self._upstream).exhausted is not StageIterator.exhausted:
            return items
        self._upstream_ended = False
        return self._noting_end(items)

    def upstream_exhausted(self) -> bool:
        """Whether the end that such a `map` or `filter` met was upstream's."""
        if self._upstream_ended is None:
            return self._upstream.exhausted
        return self._upstream_ended

    def _noting_end(self, items: Iterator[Any]) -> Iterator[Any]:
        # Not `yield from`, which would close upstream when this generator is dropped.
        for item in items:  # noqa: UP028
            yield item
        self._upstream_ended = True

    def get_state(self) -> State:
        return {"upstream": self._upstream.get_state()}

    def set_state(self, state: State) -> None:
        (upstream,) = unpack(self._stage, state, "upstream")
        self._upstream.set_state(upstream)

    def settle(self) -> None:
        self._upstream.settle()

    def close(self) -> None:
        self._upstream.close()

    @property
    def epoch(self) -> int:
        return self._upstream.epoch


class CountingIterator(TransformIterator[T]):
    """Motion of a stage that also counts its items."""

    def __init__(self, stage: Transform[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._position = 0

    def get_state(self) -> State:
        return {"position": self._position, "upstream": self._upstream.get_state()}

    def set_state(self, state: State) -> None:
        position, upstream = unpack(self._stage, state, "position", "upstream")
        limit = self._limit()
        self._position = unpack_count(
            self._stage, "position", position, limit, f"the end, length={limit}"
        )
        self._upstream.set_state(upstream)

    def skip_counted(self, count: int) -> int:
        """`skip` where each item is one of upstream's, whose functions need not be called."""
        skipped = self._upstream.skip(count)
        self._position += skipped
        return skipped

    def _limit(self) -> int | float | None:
        """The most items there can have been."""
        return self._stage.length
