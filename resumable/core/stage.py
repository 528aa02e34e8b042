"""The describing half of a stage: configuration and nothing else."""

# So it can be pickled, shared and started any number of times.

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar, overload

import numpy as np

from ..errors import InvalidArgument, InvalidType, UnknownLength, shorten
from .arguments import check_int
from .block import Block, Indices, block_items
from .stage_iterator import StageIterator

__all__ = [
    "EPOCHS",
    "ITEMS",
    "MOST_ITEMS",
    "RANK",
    "Stage",
    "as_stage",
    "check_sequential",
]

T = TypeVar("T")

MOST_ITEMS: Final = 2**62

ITEMS: Final = "items"
EPOCHS: Final = "epochs"
RANK: Final = "rank"


@dataclass(frozen=True, eq=False, repr=False)
class Stage(ABC, Generic[T]):
    """One operation of a pipeline: frozen configuration.

    A field named in `identity` changes which items come out and so belongs to the fingerprint,
    always or, by `identity_if`, beneath certain stages. Any other field may differ between save
    and resume.

    A stage is *random access* when it can compute any item from its index; then `gather`,
    ``len()`` and indexing work, and a resume costs the same at every position.
    """

    identity: ClassVar[tuple[str, ...]] = ()
    """Fields that must be equal at save and resume."""

    identity_if: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Fields that must be equal only if a later stage relies on them; see `relies_on`."""

    relies_on: ClassVar[frozenset[str]] = frozenset({ITEMS})
    """What the state takes for granted about the stages before this one: that they deliver the
    same `ITEMS` by number, number their `EPOCHS` alike, or run as the same `RANK`."""

    transparent: ClassVar[bool] = False
    """Whether items and state are upstream's own, so that the stage can be added or removed."""

    version: ClassVar[int] = 1
    """Raised when the shape of the state changes. States of a newer version are refused, those of
    an older one are given to `set_state`, which tells them by their keys."""

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
    def concurrent(self) -> bool:
        """Whether iterating it computes items ahead in threads or workers."""
        return False

    @property
    def carries_state(self) -> bool:
        """Whether it calls a function whose own state is saved."""
        return False

    @property
    def state_cost(self) -> str:
        """What it adds to the state, and what a resume reads again, in words for people."""
        return "not stated"

    @property
    def alternatives(self) -> tuple[Mapping[str, Any], ...]:
        """Other values of its tuning fields, with which it must deliver the same.

        First without threads and workers, then with more of them; empty if it has none.
        """
        return ()

    @property
    def looks_up(self) -> bool:
        """Whether its items are looked up by index, so that the stages before it save nothing."""
        return False

    @property
    def inexact_policy(self) -> str | None:
        """What `get_state` does about a position that cannot be restored; None if it can."""
        return None

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

    def span(self, start: int, stop: int) -> Sequence[T] | None:
        """The items from ``start`` to ``stop`` of a `computed` stage, none of which is made yet.

        None if only `gather` makes them.
        """
        return None

    def reindexing(self, epoch: int) -> tuple[Stage[T], Callable[[Indices], Indices]] | None:
        """For a stage that only reorders: its upstream, and the vectorised map of indices."""
        return None

    def lookup(self, epoch: int) -> Callable[[int], T]:
        """A function from one index to its item."""

        def item_at(index: int) -> T:
            indices = np.array([index], np.int64)
            return block_items(self.gather(indices, epoch))[0]  # type: ignore[no-any-return]

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

    @property
    def label(self) -> str:
        """Its name, and its arguments that are not the default; without the stages before it."""
        shown = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("upstream", "upstreams") or not field.repr:
                continue
            if field.default is MISSING or value is not field.default:
                shown.append(f"{field.name}={_name_of(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __repr__(self) -> str:
        inner = "".join(f"{stage!r} -> " for stage in self.inputs[:1])
        if len(self.inputs) > 1:
            inner = f"[{', '.join(map(repr, self.inputs))}] -> "
        return inner + self.label


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


def check_sequential(stage: Stage[Any]) -> None:
    """Refuse an upstream whose items would be looked up by index, past its threads.

    Raises:
      InvalidArgument: naming the stage that is to come later.
    """
    waiting = list(stage.inputs) if stage.random_access else []
    while waiting:
        upstream = waiting.pop()
        if upstream.concurrent:
            raise InvalidArgument(
                f"{type(stage).__name__} looks items up by index, so {type(upstream).__name__} "
                f"before it would run without its threads or processes, got {upstream!r}; put it after "
                f"{type(stage).__name__}, which gives the same items"
            )
        waiting += upstream.inputs


def _name_of(value: Any) -> str:
    name = getattr(value, "__qualname__", None) if callable(value) else None
    return name or shorten(value)
