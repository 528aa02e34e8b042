"""The usual bases of a stage: one upstream, an item for each of its items, or several upstreams."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import InvalidArgument
from .stage import MOST_ITEMS, Stage, StageIterator, as_stage
from .state import State, unpack, unpack_count

__all__ = ["Combine", "CountingIterator", "IndexedTransform", "Transform", "TransformIterator"]

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


@dataclass(frozen=True, eq=False, repr=False)
class Combine(Stage[T]):
    """A stage with several upstreams."""

    upstreams: tuple[Stage[Any], ...]

    def __post_init__(self) -> None:
        stages = tuple(
            as_stage(upstream, f"upstreams[{number}]")
            for number, upstream in enumerate(self.upstreams)
        )
        if not stages:
            raise InvalidArgument(f"{type(self).__name__} needs at least one upstream, got none")
        object.__setattr__(self, "upstreams", stages)
        known = [stage.length for stage in stages if stage.length not in (None, math.inf)]
        total = sum(length for length in known if length is not None)
        if total > MOST_ITEMS:
            raise InvalidArgument(f"upstreams must have at most 2**62 items together, got {total}")

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return self.upstreams

    @property
    def random_access(self) -> bool:
        return all(upstream.random_access for upstream in self.upstreams)


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
