"""Grain's data sets as pipelines, and pipelines as data sources of Grain."""

# A module of its own, which imports Grain; the rest of the package does not.
#
# Beyond its length, a `MapDataset` goes on: index n + i is item i of the next epoch, for which its shuffles
# and random maps draw anew. So epoch e of the pipeline has the items from e * n to (e + 1) * n - 1. This
# is what `repeat` of the data set delivers too.
#
# What a filter leaves out of a `MapDataset` is None at its index, and Grain passes over it when it iterates.
# Here a `filter` does that, but only where something in the data set may leave items out, since random access
# ends there. The classes are recognised by their names, as Grain does not export all of them.

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
from resumable.core.orders import MOST_ITEMS
from resumable.core.reliance import EPOCHS, ITEMS, PARTS, RANK
from resumable.core.stage import as_stage, runs_ahead
from resumable.errors import shorten
from resumable.sources.identity import DATA_IDENTITY, LENGTH, check_identity

__all__ = ["GrainSource", "from_grain"]

T = TypeVar("T")

LEAVE_OUT: Final = {"FilterMapDataset", "FlatMapMapDataset"}
"""The classes of Grain whose items may be None because they are left out."""

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
"""The attributes in which classes of Grain keep what chooses items or their order, beside lengths and seeds."""

DIGEST_BYTES: Final = 12


def from_grain(
    dataset: Any, *, identity: str | Sequence[str] | None = None, filtered: bool | None = None
) -> rs.Pipeline[Any]:
    """A pipeline over the items of a Grain data set.

    Of a `grain.MapDataset` it has random access, so a resume reads nothing, and the number of ranks
    behind it may change. Epoch e has the items that Grain has at the indices from ``e * len(dataset)``
    on, as in ``dataset.repeat()``. One that has no end, such as ``dataset.repeat()``, is an endless
    pipeline. Grain's threads are not used; where an item takes long, use ``map(..., workers=n)``.

    A `grain.IterDataset` or a `grain.DataLoader` is a stream, which is resumed by Grain's own state, as
    by `resumable.from_iterable`. Each epoch iterates it anew, so all epochs are alike. Threads and
    processes of Grain end when the iterator of the pipeline is closed; those of a `DataLoader` end
    when it is dropped.

    State: the position, or what Grain saves. A state of a ``MapDataset`` is refused if the data set now has
    another length, other transformations, other seeds, or another slice, range, batch size, window or
    weights of a mixture. Functions and the items of a data source are not compared.

    Args:
      dataset: a `grain.MapDataset`, `grain.IterDataset` or `grain.DataLoader`.
      identity: what identifies the data beyond that: a version, a digest or a list of file
        names. It must be the same at save and resume.
      filtered: whether items of a ``MapDataset`` may be None, and are left out then. The pipeline has no
        random access then. By default, it is looked up whether the data set has a ``filter`` or a flat map.
        Where it is not filtered, an item that is None raises `MalformedItem`.

    Raises:
      InvalidType: if ``dataset`` is something else, such as an iterator over a data set; or if
        ``identity`` is neither a string nor a list of strings.
      InvalidArgument: if ``filtered`` is given for a stream, which never has None for what it leaves out.

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
    """The items of a `grain.MapDataset` by their index, as `from_grain` describes it.

    State: O(1), the position. Random access; a resume reads nothing.

    Args:
      dataset: its length must not change later.
      data_identity: what identifies the data beyond its length, transformations and seeds.
      filtered: whether an item may be None. If not, one that is raises `MalformedItem`.
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
    # Of both, only what this version of Grain tells is compared.
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
        # Grain says `sys.maxsize` of what has no end.
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

    It goes into ``grain.MapDataset.source`` and ``grain.DataLoader(data_source=...)``. Shuffles, workers and
    checkpoints are then Grain's. It can be pickled for Grain's worker processes if the pipeline's
    functions can be. Threads may look items up at the same time.

    ``repr`` is the same in every process, and another one for another pipeline, length or epoch. A
    `DataLoader` of Grain saves it and compares it when it restores.

    Args:
      pipeline: has random access and an end. Put what ends random access behind it, in Grain.
      epoch: the epoch of the pipeline whose items these are. They are the same in each epoch of Grain.

    Raises:
      InvalidType: if ``pipeline`` is not a pipeline.
      InvalidArgument: if it has no random access, is endless, or has threads or processes, which a look-up
        by index would not use; or if ``epoch`` is below 0.

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
          MalformedItem: if the item is None, which Grain would leave out.
        """
        position = self._checked(index)
        return self._not_none(self._indexed.item(position), position)

    def _getitems(self, indices: Sequence[int]) -> list[T]:
        """Many items at once, for which Grain asks by this name."""
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
    """``dataset`` and the data sets that it is made of, in an order that depends on nothing else."""
    waiting = [dataset]
    while waiting:
        node = waiting.pop()
        yield node
        # A class of the user may not have called `__init__` of its base.
        waiting += getattr(node, "_parents", ())


def _class_names(dataset: Any) -> set[str]:
    return {kind.__name__ for kind in type(dataset).__mro__}


def _arguments(dataset: Any) -> Iterator[str]:
    """What ``dataset`` was made with, as far as this version of Grain tells it in plain values."""
    for value in _attributes(dataset, ARGUMENTS.get(type(dataset).__name__, ())):
        if isinstance(value, (int, np.integer, np.bool_)):
            yield str(int(value))
        elif isinstance(value, tuple):
            yield str(value)


def _seeds(dataset: Any) -> Iterator[int]:
    """The seeds that ``dataset`` has of its own."""
    for seed in _attributes(dataset, SEEDS):
        if isinstance(seed, (int, np.integer)):
            yield int(seed)


def _attributes(dataset: Any, names: Sequence[str]) -> Iterator[Any]:
    """Those of ``names`` that ``dataset`` has; a name may have dots."""
    for name in names:
        with suppress(AttributeError):
            yield attrgetter(name)(dataset)
