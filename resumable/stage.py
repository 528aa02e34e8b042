"""The two halves of a pipeline: `Stage` describes an operation, `StageIterator` moves through it."""

# A stage is configuration and nothing else, so it can be pickled, shared and started any
# number of times. An iterator is a position and nothing else. The contract between
# iterators is `pull`: a stage asks its upstream for exactly the items it needs to deliver
# what it was asked for, so between two calls every position in the graph is exact.
#
# Restoring is starting: `set_state` is called on an iterator that `start` has just made.
# The outermost iterator (iterator.py) builds on this rule to make restoring atomic, and to
# undo a call that an exception interrupted, for every stage at once.

from __future__ import annotations

import dataclasses
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar, Generic, TypeVar, overload

import numpy as np

from .arguments import check_int, shorten
from .block import Block, Indices, block_items, block_length
from .errors import InvalidArgument, InvalidType, UnknownLength
from .state import State, TakenState, unpack, unpack_count

__all__ = [
    "Combine",
    "CountingIterator",
    "Stage",
    "StageIterator",
    "Transform",
    "TransformIterator",
    "as_stage",
    "fingerprint",
]

T = TypeVar("T")


class StageIterator(ABC, Generic[T]):
    """Motion through one stage: it owns a position and nothing else.

    A subclass implements `pull`, `get_state` and `set_state`; `close` too if it holds
    threads or files.
    """

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """The next item."""
        try:
            block = self.pull(1)
        except StopIteration as error:
            raise RuntimeError("a user function raised StopIteration") from error
        if not block_length(block):
            raise StopIteration
        return block_items(block)[0]  # type: ignore[no-any-return]

    @abstractmethod
    def pull(self, count: int) -> Block:
        """The next ``count`` items as a block, with fewer items only at the end.

        Nothing is read from upstream beyond what these items need.
        """

    @abstractmethod
    def get_state(self) -> State:
        """The position, as a new value: starts nothing, creates nothing, shares nothing."""

    @abstractmethod
    def set_state(self, state: State) -> None:
        """Move this iterator, just started, to ``state``; reads nothing from a source.

        Raises:
          StateMismatch: if ``state`` cannot have come from this stage.
        """

    def try_state(self) -> TakenState:
        """The state, or the error that `get_state` raised.

        For a stage that takes states ahead of need: one that cannot be saved can still run.
        """
        try:
            return self.get_state()
        except Exception as error:
            return error

    def close(self) -> None:
        """End threads and release files; may be called again."""

    def items(self) -> Iterator[T]:
        """The remaining items as the fastest iterator there is, moving this one along.

        It is valid until the next `pull` or `set_state`. A subclass that returns a built-in
        iterator over a user function tells by `exhausted` what its end means.
        """
        return self

    @property
    def exhausted(self) -> bool:
        """Whether a `StopIteration` out of `items` was the end, not a user function's."""
        return True

    @property
    def epoch(self) -> int:
        """The epoch of the next item."""
        return 0


@dataclass(frozen=True, eq=False, repr=False)
class Stage(ABC, Generic[T]):
    """One operation of a pipeline: frozen configuration.

    A field named in `identity` changes which items come out and so belongs to the
    fingerprint; any other field may differ between save and resume.

    A stage is *random access* when it can compute any item from its index; then `gather`,
    ``len()`` and indexing work, and a resume costs the same at every position.
    """

    identity: ClassVar[tuple[str, ...]] = ()
    """Fields that must be equal at save and resume."""

    grouping: ClassVar[tuple[str, ...]] = ()
    """Fields that must be equal only beneath a stage that counts or re-reads items."""

    counts_items: ClassVar[bool] = True
    """Whether the state counts or re-reads upstream's items, so that they may not change."""

    version: ClassVar[int] = 1
    """Raised when the shape of the state changes; `set_state` reads older shapes too."""

    computed: ClassVar[bool] = False
    """Whether `gather` is pure arithmetic, so that items may be computed ahead."""

    def __post_init__(self) -> None:
        """Check the arguments; a subclass extends this."""

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        """The upstream stages."""
        return ()

    @property
    def random_access(self) -> bool:
        """Whether any item can be computed from its index."""
        return False

    @property
    def length(self) -> int | float | None:
        """Number of items of one pass: `math.inf` if endless, None if reading alone tells."""
        return None

    @abstractmethod
    def start(self, epoch: int = 0) -> StageIterator[T]:
        """A new iterator at the first item of ``epoch``."""

    def gather(self, indices: Indices, epoch: int = 0) -> Block:
        """The items at ``indices``, an int64 array within the length, as a block of its own.

        Raises:
          InvalidType: if the stage is not random access.
        """
        moved = self.reindexing(epoch)
        if moved is None:
            raise InvalidType(
                f"{type(self).__name__} has no random access: it can only be iterated"
            )
        base, index_map = moved
        return base.gather(index_map(indices), epoch)

    def reindexing(self, epoch: int) -> tuple[Stage[T], Callable[[Indices], Indices]] | None:
        """For a stage that only reorders: its upstream, and the vectorised map of indices."""
        return None

    def lookup(self, epoch: int) -> Callable[[int], T]:
        """A function from one index to its item."""

        def item_at(index: int) -> T:
            return block_items(self.gather(np.array([index]), epoch))[0]  # type: ignore[no-any-return]

        return item_at

    def __iter__(self) -> StageIterator[T]:
        return self.start(0)

    def __len__(self) -> int:
        length = self.length
        if length is None:
            raise UnknownLength(
                f"{type(self).__name__} has no len(): how many items it delivers is known only "
                "after reading them"
            )
        if length == math.inf:
            raise UnknownLength(f"{type(self).__name__} has no len(): it is endless; use take(n)")
        return int(length)

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        """The item at ``index``, or the list of items of a slice, in epoch 0."""
        if not self.random_access:
            raise InvalidType(
                f"{type(self).__name__} has no random access: it can only be iterated"
            )
        if isinstance(index, slice):
            positions = np.arange(*index.indices(self._slice_length(index)), dtype=np.int64)
            return list(block_items(self.gather(positions))) if len(positions) else []
        position = check_int("index", index)
        length = self.length
        assert length is not None
        if position < 0 and length != math.inf:
            position += int(length)
        if not 0 <= position < length:
            raise IndexError(f"index {index} is out of range for {length} items")
        return self.lookup(0)(position)

    def _slice_length(self, index: slice) -> int:
        """What a slice counts from: any length will do if it says where it ends."""
        bounds = (index.start or 0, index.stop)
        if self.length == math.inf and bounds[1] is not None and min(bounds) >= 0:
            return int(max(bounds))
        return len(self)

    def __repr__(self) -> str:
        shown = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("upstream", "upstreams") or not field.repr:
                continue
            if field.default is MISSING or value is not field.default:
                shown.append(f"{field.name}={_name_of(value)}")
        inner = "".join(f"{stage!r} -> " for stage in self.inputs[:1])
        if len(self.inputs) > 1:
            inner = f"[{', '.join(map(repr, self.inputs))}] -> "
        return f"{inner}{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, eq=False, repr=False)
class Transform(Stage[T]):
    """A stage with one upstream."""

    upstream: Stage[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "upstream", as_stage(self.upstream, "upstream"))

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return (self.upstream,)

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

    def get_state(self) -> State:
        return {"upstream": self._upstream.get_state()}

    def set_state(self, state: State) -> None:
        (upstream,) = unpack(self._stage, state, "upstream")
        self._upstream.set_state(upstream)

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
        length = self._stage.length
        self._position = unpack_count(
            self._stage, "position", position, length, f"the end, length={length}"
        )
        self._upstream.set_state(upstream)


def as_stage(value: Any, name: str = "pipeline") -> Stage[Any]:
    """The stage that ``value`` is, or that the pipeline ``value`` wraps.

    Raises:
      InvalidType: if it is neither.
    """
    stage = getattr(value, "stage", value)
    if isinstance(stage, Stage):
        return stage
    raise InvalidType(
        f"{name} must be a pipeline, got {shorten(value)}; "
        "wrap data with from_sequence, from_arrays or from_iterable"
    )


def fingerprint(stage: Stage[Any]) -> str:
    """What identifies a pipeline: its stages with the identity fields that differ from defaults.

    A field left out equals its default, so a field added later keeps old states readable.
    """
    return json.dumps(_node(stage, beneath_counter=False), separators=(",", ":"))


def _node(stage: Stage[Any], beneath_counter: bool) -> list[Any]:
    if getattr(stage, "transparent", False):  # it delivers upstream's items unchanged
        return _node(stage.inputs[0], beneath_counter)
    defaults = {field.name: field.default for field in dataclasses.fields(stage)}
    names = stage.identity + (stage.grouping if beneath_counter else ())
    fields = {}
    for name in names:
        value = getattr(stage, name)
        if value != defaults.get(name, MISSING):
            fields[name] = value
    if stage.version > 1:
        fields["version"] = stage.version
    below = beneath_counter or stage.counts_items
    own = [type(stage).__name__, fields] if fields else [type(stage).__name__]
    return own + [_node(upstream, below) for upstream in stage.inputs]


def _name_of(value: Any) -> str:
    name = getattr(value, "__qualname__", None) if callable(value) else None
    return name or shorten(value)
