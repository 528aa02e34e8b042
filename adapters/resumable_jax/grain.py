"""Grain's data sets as pipelines, and pipelines as data sources of Grain."""

# A separate module, since only this module of the package imports Grain.
#
# A `MapDataset` continues beyond its length n: index n + i is item i of the next epoch, with newly
# drawn shuffles and random maps. So epoch e of the pipeline has the items from index e * n up to
# (e + 1) * n - 1, as delivered by `repeat` of the data set.
#
# A filtered item of a `MapDataset` is None at its index, and iteration by Grain skips None. Here a
# `filter` skips None, but only where some part of the data set may leave items out, since a filter
# ends random access. Classes are recognised by name, as Grain does not export all classes.

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from operator import attrgetter
from operator import index as as_index
from typing import Any, ClassVar, Final, Generic, TypeVar, final

import grain
import numpy as np

import resumable as rs
from resumable.core import (
    ALWAYS,
    Block,
    IdentityFields,
    Indexed,
    Indices,
    LookedUp,
    block_items,
    by_index,
    check_int,
)
from resumable.core.epochs import in_epoch
from resumable.core.evidence import UNKNOWN, Evidence
from resumable.core.fingerprint import fingerprint
from resumable.core.graph import walk
from resumable.core.identity import EPOCHS, ITEMS, PARTS, RANK
from resumable.core.orders import MOST_ITEMS
from resumable.core.stage import as_stage, runs_ahead
from resumable.errors import shorten
from resumable.sources.identity import DATA_IDENTITY, LENGTH, check_identity

__all__ = ["GrainSource", "from_grain"]

T = TypeVar("T")

LEAVE_OUT: Final = {"FilterMapDataset", "FlatMapMapDataset"}
"""The classes of Grain that may leave items out, with None instead."""

SEEDS: Final = ("_seed", "_seed_rng_seed", "_rng_pool._seed")
"""The attributes in which Grain's data sets keep seeds."""

ARGUMENTS: Final = {
    "BatchMapDataset": ("_batch_size", "_drop_remainder"),
    "MixedMapDataset": ("_selection_map._proportions",),
    "RangeMapDataset": ("start", "step"),
    "RepeatMapDataset": ("_reseed_each_epoch",),
    "SliceMapDataset": ("_start", "_step"),
    "WindowShuffleMapDataset": ("_window_size",),
}
"""The attributes of classes of Grain that determine items or order, besides lengths and seeds."""

DIGEST_BYTES: Final = 12


def from_grain(
    dataset: Any, *, identity: str | Sequence[str] | None = None, filtered: bool | None = None
) -> rs.Pipeline[Any]:
    """A pipeline over the items of a Grain data set.

    A `grain.MapDataset` gives random access, so a resume reads nothing, and the number of ranks of
    a later `shard` may change. Epoch e has the items of Grain at the indices from ``e *
    len(dataset)`` on, as in ``dataset.repeat()``. A data set without end, such as
    ``dataset.repeat()``, is an endless pipeline. Grain's threads are not used; for slow items, use
    ``map(..., workers=n)``.

    A `grain.IterDataset` or a `grain.DataLoader` is a stream, resumed by Grain's own state, as by
    `resumable.from_iterable`. Each epoch iterates from the start, so all epochs are alike. Threads
    and processes of Grain end when the iterator of the pipeline is closed; with a `DataLoader`,
    when the iterator is dropped.

    State: the position, or the state that Grain saves. A state of a ``MapDataset`` is refused if
    the data set now has another length, other transformations, other seeds, or another slice,
    range, batch size, window or weights of a mixture. Functions and the items of a data source are
    not compared.

    Args:
      dataset: a `grain.MapDataset`, `grain.IterDataset` or `grain.DataLoader`.
      identity: identifies the data further: a version, a digest or a list of file names. Must be
        the same at save and resume.
      filtered: whether to leave out items of a ``MapDataset`` that are None; this ends random
        access. The default is whether the data set has a ``filter`` or a flat map. Without
        filtering, an item that is None raises `MalformedItem`.

    Raises:
      InvalidType: if ``dataset`` is something else, such as an iterator over a data set; or if
        ``identity`` is neither a string nor a list of strings.
      InvalidArgument: if ``filtered`` is given for a stream, since a stream leaves items out
        without None.

    >>> pipeline = from_grain(grain.MapDataset.range(5).map(str))
    >>> pipeline[3], list(pipeline.shard(0, 2).batch(2))
    ('3', [['0', '2']])
    """
    if isinstance(dataset, grain.MapDataset):
        if filtered is None:
            filtered = any(_class_names(node) & LEAVE_OUT for node in _nodes(dataset))
        stage = FromMapDataset(dataset, data_identity=identity, filtered=filtered)
        pipeline: rs.Pipeline[Any] = rs.Pipeline(stage)
        return pipeline.filter(_is_kept) if filtered else pipeline
    if not isinstance(dataset, (grain.IterDataset, grain.DataLoader)):
        hint = ""
        if isinstance(dataset, (grain.DatasetIterator, grain.DataLoaderIterator)):
            hint = "; pass what it iterates"
        elif hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
            hint = "; use from_sequence for a data source"
        raise rs.InvalidType(
            "dataset must be a grain.MapDataset, a grain.IterDataset or a grain.DataLoader, got "
            f"{shorten(dataset)}{hint}"
        )
    if filtered is not None:
        raise rs.InvalidArgument(
            "filtered must be None for an IterDataset and a DataLoader, which leave items out "
            f"themselves, got {shorten(filtered)}"
        )
    return rs.from_iterable(dataset, identity=identity)


@final
@dataclass(frozen=True, eq=False, repr=False)
class FromMapDataset(LookedUp[Any]):
    """The items of a `grain.MapDataset` by index, as described by `from_grain`.

    State: O(1), the position. Random access; a resume reads nothing.

    Args:
      dataset: a data set of constant length.
      data_identity: identifies the data, in addition to length, transformations and seeds.
      filtered: whether an item may be None. If not, None raises `MalformedItem`.
    """

    identity: ClassVar[IdentityFields] = {
        "size": replace(LENGTH, shown_as="len(dataset)"),
        "data_identity": DATA_IDENTITY,
        "structure": ALWAYS,
        "seeds": ALWAYS,
    }
    state_cost = "the position"

    dataset: Any
    _: KW_ONLY
    data_identity: Any = None
    filtered: bool = False
    size: int = field(init=False, repr=False)
    # Of structure and seeds, only the facts that this version of Grain reports are compared.
    structure: Evidence = field(init=False, repr=False, default=UNKNOWN)
    seeds: Evidence = field(init=False, repr=False, default=UNKNOWN)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "data_identity", check_identity(self.data_identity))
        object.__setattr__(self, "size", len(self.dataset))
        nodes = list(_nodes(self.dataset))
        named = [
            " ".join([type(node).__name__, str(len(node)), *_arguments(node)]) for node in nodes
        ]
        object.__setattr__(self, "structure", self._evidence("structure", named))
        seeds = [str(seed) for node in nodes for seed in _seeds(node)]
        object.__setattr__(self, "seeds", self._evidence("seeds", seeds))

    def _evidence(self, kind: str, known: list[str]) -> Evidence:
        name = f"the data set that ends with {type(self.dataset).__name__}"
        return Evidence(kind, ["\n".join(known).encode()], [name]) if known else UNKNOWN

    @property
    def user_functions(self) -> Mapping[str, Callable[..., Any]]:
        return {"dataset.__getitem__": self.dataset.__getitem__}

    @property
    def length(self) -> int | float:
        # Grain reports the length `sys.maxsize` for an endless data set.
        return self.size if self.size <= MOST_ITEMS else math.inf

    def indexed(self, epoch: int = 0) -> Indexed[Any]:
        first = epoch * self.size

        def item(index: int) -> Any:
            found = self.dataset[first + index]
            if found is None and not self.filtered:
                raise rs.MalformedItem(
                    f"item {index} of {self!r} is None, which Grain leaves out when it iterates; pass "
                    "from_grain filtered=True to leave it out, or use from_sequence, for which None is an "
                    "item as any other"
                )
            return found

        def gather(indices: Indices) -> Block:
            return list(map(item, indices.tolist()))

        return Indexed(gather, item)

    def __repr__(self) -> str:
        size = "endless" if self.length == math.inf else f"{self.size} items"
        return f"FromMapDataset({type(self.dataset).__name__}, {size}, by index)"


@final
@dataclass(frozen=True, eq=False, repr=False)
class GrainSource(Generic[T]):
    """A data source of Grain with the items of a pipeline that has random access.

    For ``grain.MapDataset.source`` and ``grain.DataLoader(data_source=...)``. Shuffles, workers and
    checkpoints are then Grain's. The source can be pickled for Grain's worker processes if the
    pipeline's functions can be. Threads may look items up at the same time.

    ``repr`` is the same in every process, and differs for another pipeline, length or epoch. A
    `DataLoader` of Grain saves the ``repr`` and compares it on restoring.

    Args:
      pipeline: has random access and an end. Put stages that end random access after the source, in
        Grain.
      epoch: the epoch of the pipeline to take items from. Each epoch of Grain has the same items.

    Raises:
      InvalidType: if ``pipeline`` is not a pipeline.
      InvalidArgument: if the pipeline has no random access, is endless, or has threads or
        processes, since a look-up by index would not use them; or if ``epoch`` is below 0.

    >>> source = GrainSource(rs.from_sequence("abcd").map(str.upper))
    >>> list(grain.MapDataset.source(source)[1:3])
    ['B', 'C']
    """

    pipeline: rs.Pipeline[T]
    epoch: int = 0

    def __post_init__(self) -> None:
        pipeline: rs.Pipeline[T] = rs.Pipeline(as_stage(self.pipeline))
        object.__setattr__(self, "pipeline", pipeline)
        object.__setattr__(self, "epoch", check_int("epoch", self.epoch, minimum=0))
        if not pipeline.random_access:
            raise rs.InvalidArgument(
                f"pipeline must have random access, got {pipeline!r}; leave out what ends it, such as "
                "filter or pack, and let Grain do that behind the source; or save files of the items"
            )
        if pipeline.length == math.inf:
            raise rs.InvalidArgument(
                f"pipeline must have an end, got {pipeline!r}; leave out repeat() and use that of Grain, or "
                "add take(n)"
            )
        for stage, path in walk(in_epoch(pipeline.stage, self.epoch)):
            if runs_ahead(stage):
                raise rs.InvalidArgument(
                    f"pipeline must have no threads or processes, which a look-up by index does not use, got "
                    f"{stage} at {path}; leave out its workers or prefetch, and use those of Grain"
                )

    @cached_property
    def _indexed(self) -> Indexed[T]:
        return by_index(in_epoch(self.pipeline.stage, self.epoch), self.epoch)

    @cached_property
    def _length(self) -> int:
        return len(in_epoch(self.pipeline.stage, self.epoch))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> T:
        """The item at ``index``.

        Raises:
          IndexError: if ``index`` is negative or not below the length.
          MalformedItem: if the item is None, since Grain would leave it out.
        """
        position = self._checked(index)
        return self._not_none(self._indexed.item(position), position)

    def _getitems(self, indices: Sequence[int]) -> list[T]:
        """Many items at once; Grain calls this method."""
        positions = list(map(self._checked, indices))
        if not positions:
            return []
        items: list[T] = block_items(self._indexed.gather(np.array(positions, np.int64)))
        return list(map(self._not_none, items, positions))

    def _checked(self, index: int) -> int:
        position = as_index(index)
        if not 0 <= position < self._length:
            raise IndexError(f"index {index} is out of range for {self._length} items")
        return position

    def _not_none(self, item: T, position: int) -> T:
        if item is None:
            raise rs.MalformedItem(
                f"item {position} of {self.pipeline!r} is None, which Grain would leave out; map it to "
                "something else"
            )
        return item

    def __reduce__(self) -> tuple[Any, ...]:
        return GrainSource, (self.pipeline, self.epoch)

    def __repr__(self) -> str:
        identified = fingerprint(self.pipeline.stage, ITEMS | EPOCHS | RANK | PARTS)
        digest = blake2b(identified.encode(), digest_size=DIGEST_BYTES).hexdigest()
        return f"GrainSource(length={self._length}, epoch={self.epoch}, pipeline={digest})"


def _is_kept(item: Any) -> bool:
    return item is not None


def _nodes(dataset: Any) -> Iterator[Any]:
    """``dataset`` and its input data sets, in an order that depends on nothing else."""
    waiting = [dataset]
    while waiting:
        node = waiting.pop()
        yield node
        # A user's class may not have called `__init__` of the base class.
        waiting += getattr(node, "_parents", ())


def _class_names(dataset: Any) -> set[str]:
    return {kind.__name__ for kind in type(dataset).__mro__}


def _arguments(dataset: Any) -> Iterator[str]:
    """The arguments of ``dataset``, as far as this version of Grain keeps plain values."""
    for value in _attributes(dataset, ARGUMENTS.get(type(dataset).__name__, ())):
        if isinstance(value, (int, np.integer, np.bool_)):
            yield str(int(value))
        elif isinstance(value, tuple):
            yield str(value)


def _seeds(dataset: Any) -> Iterator[int]:
    """The seeds of ``dataset`` alone."""
    for seed in _attributes(dataset, SEEDS):
        if isinstance(seed, (int, np.integer)):
            yield int(seed)


def _attributes(dataset: Any, names: Sequence[str]) -> Iterator[Any]:
    """The attributes in ``names`` that ``dataset`` has; a name may have dots."""
    for name in names:
        with suppress(AttributeError):
            yield attrgetter(name)(dataset)
