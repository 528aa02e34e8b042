"""The fluent builder: the only module that knows every stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

import numpy as np

from .core.arguments import check_callable, check_choice, check_int
from .core.block import Block, Indices, block_items
from .core.computed_once import computed_once
from .core.epochs import by_epoch as split_by_epoch
from .core.epochs import checked_pipelines, in_epoch
from .core.fingerprint import fingerprint
from .core.indexed import Indexed
from .core.iterator import PipelineIterator
from .core.old_names import warn_of_old_name, with_old_argument
from .core.orders import Length, countable
from .core.origin import ItemOrigin
from .core.runnable import RunnablePipeline
from .core.stage import Stage, as_stage, by_index, items_at, known_length
from .errors import InvalidArgument, InvalidType, shorten
from .errors.foreign_words import no_attribute
from .order.weights import Weights
from .shadows.shadow import Origins
from .sources.arrays import FromArrays
from .sources.identity import check_identity
from .sources.iterable import FromIterable
from .sources.range import Range
from .sources.sequence import FromSequence, Indexable, is_sequence
from .stages import partitioning
from .stages.batch import Batch
from .stages.bucket import Bucket
from .stages.cache import Cache
from .stages.concatenate import Concatenate
from .stages.enumerate import Enumerate
from .stages.exclude import Exclude, RecordsByItem
from .stages.filter import Filter
from .stages.flat_map import FlatMap
from .stages.interleave import Interleave
from .stages.interleave_map import InterleaveMap
from .stages.map import Map
from .stages.map_batches import MapBatches
from .stages.mix import Mix
from .stages.pack import BestFitPack, ConcatenatePack
from .stages.packs import GROUP
from .stages.partition import Partition, share_of
from .stages.prefetch import Prefetch
from .stages.random_map import RandomMap
from .stages.repeat import Repeat
from .stages.sample import Sample
from .stages.scan import Scan
from .stages.shard import Shard
from .stages.shuffle import Shuffle
from .stages.skip import Skip
from .stages.take import Take
from .stages.take_while import TakeWhile
from .stages.unbatch import Unbatch
from .stages.window import Window
from .stages.window_shuffle import WindowShuffle
from .stages.zip import Zip
from .state.value import State
from .views.description import describe, to_html, to_mermaid
from .views.explained import explained_by

T = TypeVar("T")
U = TypeVar("U")
Identity: TypeAlias = "str | Sequence[str] | None"
AnyWeights: TypeAlias = Weights | Mapping[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class Pipeline(Generic[T]):
    """A composition of stages; every method returns a new pipeline and changes nothing.

    >>> pipeline = rs.range(10).shuffle(seed=0).batch(4)
    >>> len(pipeline)
    3

    ``iter(pipeline)`` begins an epoch: a `PipelineIterator`, which can be saved and restored at any
    item. Each loop over a pipeline begins a new epoch. ``len(pipeline)`` and ``pipeline[index]``
    work if the last stage has random access; ``pipeline[2:5]`` and ``pipeline[[0, -2]]`` are lists
    of items. ``p + q`` is ``rs.concatenate(p, q)``. ``pipeline.apply(MyStage, ...)`` adds your own
    stage.

    Args:
      stage: the last stage; earlier stages are its upstreams.

    Raises:
      InvalidType: if ``stage`` is not a stage or a pipeline.
    """

    stage: Stage[T]

    def __post_init__(self) -> None:
        object.__setattr__(self, "stage", split_by_epoch(as_stage(self.stage, "stage")))

    def start(self, epoch: int = 0) -> PipelineIterator[T]:
        """A new iterator at the first item of ``epoch``.

        Args:
          epoch: number of the epoch, from 0; shuffles and random maps draw anew in each epoch.

        Raises:
          InvalidArgument: if ``epoch`` is below 0, or if a state of the pipeline would be nested more
            than 350 levels deep.
          InvalidType: if ``epoch`` is not an integer.

        >>> pipeline = rs.range(10).shuffle(seed=0)
        >>> list(pipeline.start(epoch=1)) == list(pipeline)
        False
        """
        return PipelineIterator(self._runnable, check_int("epoch", epoch, minimum=0))

    def __iter__(self) -> PipelineIterator[T]:
        return self.start(0)

    def resume(self, state: State) -> PipelineIterator[T]:
        """A new iterator at ``state``.

        With a `repeat`, a state saved after the last item of an epoch continues with the next
        epoch. After the last epoch, or without `repeat` after the last item, no items follow.

        Args:
          state: returned by `get_state` of an iterator, in this process or another.

        Raises:
          StateMismatch: if ``state`` belongs to another pipeline, or is not a state.

        >>> pipeline = rs.range(4)
        >>> iterator = iter(pipeline)
        >>> next(iterator)
        0
        >>> list(pipeline.resume(iterator.get_state()))
        [1, 2, 3]
        """
        return PipelineIterator(self._runnable, state=state)

    @computed_once
    def _runnable(self) -> RunnablePipeline[T]:
        return RunnablePipeline(self.stage)

    @computed_once
    def _by_index(self) -> Indexed[T]:
        """The items of epoch 0, for callers who read one item after another."""
        return by_index(self.stage)

    def __getstate__(self) -> dict[str, Any]:
        return {"stage": self.stage}

    def __len__(self) -> int:
        return len(self.stage)

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice | list[int] | Indices) -> list[T]: ...
    def __getitem__(self, index: int | slice | list[int] | Indices) -> T | list[T]:
        if isinstance(index, (int, slice)) or np.ndim(index) != 1 or isinstance(index, tuple):
            return items_at(self.stage, self._by_index, index)  # type: ignore[arg-type]
        indices, length = np.asarray(index), self.length
        if indices.dtype.kind == "i" and length not in (None, np.inf):
            indices = indices.astype(np.int64)  # a dtype that holds the length
            from_end = (indices < 0) & (indices >= -length)
            indices = np.where(from_end, indices + length, indices)
        return block_items(self.gather(indices))

    def __add__(self, other: Pipeline[U]) -> Pipeline[T | U]:
        if not isinstance(other, Pipeline):
            return NotImplemented
        stage = self.stage
        is_plain = isinstance(stage, Concatenate) and stage.names is None
        return Pipeline(Concatenate((*(stage.inputs if is_plain else (stage,)), other.stage)))

    def gather(self, indices: Indices, epoch: int = 0) -> Block:
        """The items at ``indices`` as one block.

        Args:
          indices: integers within the length, shape (n,).
          epoch: the epoch of the items.

        Returns:
          a list of items, or columns: arrays of shape (n, ...), or a dict or tuple of arrays.

        Raises:
          InvalidType: if the pipeline has no random access, or ``indices`` are not integers.
          InvalidArgument: if ``indices`` have another shape, or an index lies beyond the length.

        >>> rs.range(10, 20).gather([3, 0])
        array([13, 10])
        """
        chosen = np.asarray(indices)
        if chosen.size and chosen.dtype.kind not in "iu":
            raise InvalidType(f"indices must be integers, got {shorten(indices)}")
        if chosen.ndim != 1:
            raise InvalidArgument(f"indices must have one axis, got shape {chosen.shape}")
        stage = in_epoch(self.stage, check_int("epoch", epoch, minimum=0))
        indexed, length = by_index(stage, epoch), known_length(stage)
        if chosen.size and not 0 <= int(chosen.min()) <= int(chosen.max()) < countable(length):
            raise InvalidArgument(f"indices must lie within {length} items, got {shorten(indices)}")
        block = indexed.gather(chosen.astype(np.int64)) if chosen.size else []
        return self.stage.block_layout.block(block)

    @property
    def random_access(self) -> bool:
        """Whether any item can be computed from its index."""
        return self.stage.random_access

    @property
    def length(self) -> Length:
        """Number of items of an epoch: `math.inf` if endless, None if unknown without reading."""
        return self.stage.length

    @property
    def fingerprint(self) -> str:
        """Identifies the pipeline: a state is accepted if its fingerprint fits this fingerprint."""
        return fingerprint(self.stage)

    def describe(self) -> str:
        """The graph as a tree, with the last stage on top.

        Each line shows a stage with its arguments, the number of items (``?`` if unknown without
        reading), the kind of access, and the stage's part of the state.

        >>> print(rs.range(3).describe())
        stage          items  access         its part of the state
        Range(stop=3)      3  random access  the position
        """
        return describe(self.stage)

    def to_mermaid(self) -> str:
        """The graph as text in the language of Mermaid, drawn by many documentation tools.

        >>> print(rs.range(3).to_mermaid())
        graph TD
            s0["Range(stop=3)"]
        """
        return to_mermaid(self.stage)

    def __dir__(self) -> list[str]:
        # Completion offers the names for users; `stage` is for authors of stages.
        return sorted({*super().__dir__()} - {"stage"})

    if not TYPE_CHECKING:  # or any name would pass

        def __getattr__(self, name: str) -> None:
            message = no_attribute("'Pipeline' object", name, "methods")
            raise AttributeError(message, name=name, obj=self)

    def __repr__(self) -> str:
        return f"Pipeline({self.stage!r})"

    def _repr_html_(self) -> str:
        return to_html(self.stage)

    def apply(self, stage: Callable[..., Stage[U]], *args: Any, **options: Any) -> Pipeline[U]:
        """Add your own stage: ``stage(upstream, *args, **options)``.

        Args:
          stage: the class of the stage, or a function that returns a stage.
          args: positional arguments after the upstream.
          options: keyword arguments.

        Raises:
          InvalidType: if ``stage`` cannot be called, is a function of a pipeline, or returns
            neither a stage nor a pipeline.

        >>> from resumable.stages.take import Take
        >>> list(rs.range(9).apply(Take, 2))
        [0, 1]
        """
        check_callable("stage", stage)
        try:
            return Pipeline(stage(self.stage, *args, **options))
        except AttributeError as error:
            if error.obj is self.stage and hasattr(Pipeline, error.name or ""):
                raise InvalidType(
                    f"stage must take a stage, not a pipeline, got {shorten(stage)}, which asks it for "
                    f"{error.name}; write fn(pipeline) instead of pipeline.apply(fn)"
                ) from error
            raise

    @explained_by(Map, fn_version="version")
    def map(
        self,
        fn: Callable[[T], U],
        *,
        workers: int = 0,
        executor: str | Executor = "thread",
        on_error: str = "raise",
        on_skip: Callable[..., object] | None = None,
        version: str | int | None = None,
    ) -> Pipeline[U]:
        """Apply ``fn`` to every item; see `resumable.stages.map.Map`."""
        return Pipeline(
            Map(
                self.stage,
                fn,
                workers=workers,
                executor=executor,
                on_error=on_error,
                on_skip=on_skip,
                fn_version=version,
            )
        )

    @explained_by(RandomMap, fn_version="version")
    def random_map(
        self,
        fn: Callable[[T, np.random.Generator], U],
        seed: int = 0,
        *,
        workers: int = 0,
        executor: str | Executor = "thread",
        on_error: str = "raise",
        on_skip: Callable[..., object] | None = None,
        version: str | int | None = None,
    ) -> Pipeline[U]:
        """Apply ``fn(item, rng)`` to every item, with a random generator for each.

        See `resumable.stages.random_map.RandomMap`.
        """
        return Pipeline(
            RandomMap(
                self.stage,
                fn,
                seed=seed,
                workers=workers,
                executor=executor,
                on_error=on_error,
                on_skip=on_skip,
                fn_version=version,
            )
        )

    @explained_by(Filter, fn_version="version")
    def filter(
        self, predicate: Callable[[T], object], *, version: str | int | None = None
    ) -> Pipeline[T]:
        """Keep the items where ``predicate(item)`` is true.

        See `resumable.stages.filter.Filter`.
        """
        return Pipeline(Filter(self.stage, predicate, fn_version=version))

    @explained_by(FlatMap, fn_version="version")
    def flat_map(
        self,
        fn: Callable[[T], Iterable[U]],
        *,
        size: int | None = None,
        version: str | int | None = None,
    ) -> Pipeline[U]:
        """Replace every item by the items of ``fn(item)``.

        See `resumable.stages.flat_map.FlatMap`.
        """
        return Pipeline(FlatMap(self.stage, fn, size=size, fn_version=version))

    @explained_by(InterleaveMap, fn_version="version")
    def interleave_map(
        self,
        fn: Callable[[T], Iterable[U]],
        cycle_length: int,
        block_length: int = 1,
        *,
        version: str | int | None = None,
    ) -> Pipeline[U]:
        """Expand ``cycle_length`` items at once, and take ``block_length`` items of each in turn.

        See `resumable.stages.interleave_map.InterleaveMap`.
        """
        return Pipeline(
            InterleaveMap(
                self.stage,
                fn,
                cycle_length=cycle_length,
                block_length=block_length,
                fn_version=version,
            )
        )

    def interleave(self, *args: Any, **options: Any) -> Pipeline[Any]:
        """Deprecated until 0.5: the former name of `interleave_map`."""
        warn_of_old_name("interleave of a pipeline", "write interleave_map", 2)
        return self.interleave_map(*args, **options)

    @explained_by(Scan, fn_version="version")
    def scan(
        self,
        fn: Callable[[Any, T], tuple[Any, U]],
        initial: Any,
        finish: Callable[[Any], Iterable[U]] | None = None,
        *,
        version: str | int | None = None,
    ) -> Pipeline[U]:
        """Apply ``carry, output = fn(carry, item)`` to every item, and hand the carry on.

        See `resumable.stages.scan.Scan`.
        """
        return Pipeline(Scan(self.stage, fn, initial=initial, finish=finish, fn_version=version))

    @explained_by(Shuffle, WindowShuffle)
    def shuffle(
        self,
        seed: int,
        *,
        block: int | None = None,
        window: int | None = None,
        carry: bool = False,
    ) -> Pipeline[T]:
        """Shuffle all items, or blocks of neighbours, or a stream through a window of ``window`` items.

        See `resumable.stages.shuffle.Shuffle`, and `resumable.stages.window_shuffle.WindowShuffle`
        for a window.
        """
        if window is None:
            if carry:
                raise InvalidArgument("carry needs a window, got window=None")
            return Pipeline(Shuffle(self.stage, seed, block=block))
        if block is not None:
            raise InvalidArgument(
                "shuffle takes a block, for random access, or a window, for a stream, got "
                f"block={shorten(block)} and window={shorten(window)}"
            )
        return Pipeline(WindowShuffle(self.stage, seed, window=window, carry=carry))

    @explained_by(Sample)
    def sample(self, weights: Any, *, seed: int = 0, count: int | None = None) -> Pipeline[T]:
        """Draw items by their weights, with replacement; see `resumable.stages.sample.Sample`."""
        return Pipeline(Sample(self.stage, weights, seed=seed, count=count))

    @explained_by(Exclude)
    def exclude(self, records: RecordsByItem) -> Pipeline[T]:
        """Leave out records of the source, with all items made of these records.

        See `resumable.stages.exclude.Exclude`.
        """
        return Pipeline(Exclude(self.stage, records))

    @explained_by(Batch)
    def batch(
        self,
        batch_size: int,
        *,
        drop_last: bool = False,
        collate: Callable[[list[T]], Any] | None = None,
    ) -> Pipeline[Any]:
        """Group consecutive items into batches of ``batch_size``.

        See `resumable.stages.batch.Batch`.
        """
        return Pipeline(
            Batch(self.stage, batch_size=batch_size, drop_last=drop_last, collate=collate)
        )

    @explained_by(Unbatch)
    def unbatch(self, *, size: int | None = None) -> Pipeline[Any]:
        """Split batches into items: rows of an array, tuples or dicts of rows, entries of a list.

        See `resumable.stages.unbatch.Unbatch`.
        """
        return Pipeline(Unbatch(self.stage, size=size))

    @explained_by(MapBatches, fn_version="version")
    def map_batches(
        self,
        fn: Callable[[Any], Iterable[U]],
        batch_size: int,
        *,
        workers: int = 0,
        executor: str | Executor = "thread",
        on_error: str = "raise",
        on_skip: Callable[..., object] | None = None,
        version: str | int | None = None,
    ) -> Pipeline[U]:
        """Replace every group of ``batch_size`` consecutive items by the items of ``fn(group)``.

        See `resumable.stages.map_batches.MapBatches`.
        """
        return Pipeline(
            MapBatches(
                self.stage,
                fn,
                batch_size=batch_size,
                workers=workers,
                executor=executor,
                on_error=on_error,
                on_skip=on_skip,
                fn_version=version,
            )
        )

    @with_old_argument("window", "group")
    @explained_by(BestFitPack, ConcatenatePack, window="group")
    def pack(
        self,
        length: int | Mapping[str, int],
        *,
        group: int = GROUP,
        how: str = "best_fit",
        key: str | None = None,
        tail: str = "pad",
        pad: float | Mapping[str, float | None] = 0,
        too_long: str = "cut",
        align: int | Mapping[str, int] = 1,
        bos: float | Mapping[str, float] | None = None,
        eos: float | Mapping[str, float] | None = None,
        max_documents: int | None = None,
        per_document: Sequence[str] = (),
        parts: bool = False,
        shuffle_rows: int | None = None,
        lengths: Pipeline[Any] | None = None,
    ) -> Pipeline[dict[str, Any]]:
        """Pack documents into rows, dicts of arrays of shape (length, ...).

        See `resumable.stages.pack.BestFitPack`, and `resumable.stages.pack.ConcatenatePack` for
        ``how="concatenate"``.
        """
        options: dict[str, Any] = {
            "window": group,
            "key": key,
            "tail": tail,
            "pad": pad,
            "align": align,
            "bos": bos,
            "eos": eos,
            "max_documents": max_documents,
            "per_document": per_document,
            "parts": parts,
        }
        if check_choice("how", how, ("best_fit", "concatenate")) == "best_fit":
            return Pipeline(
                BestFitPack(
                    self.stage,
                    length,
                    too_long=too_long,
                    shuffle_rows=shuffle_rows,
                    lengths=lengths,  # type: ignore[arg-type]
                    **options,
                )
            )
        check_choice("too_long", too_long, ("cut",))
        if shuffle_rows is not None:
            raise InvalidArgument(
                "shuffle_rows must be None for how='concatenate', whose rows have the order of the stream, "
                f"got {shorten(shuffle_rows)}"
            )
        if lengths is not None:
            raise InvalidArgument(
                "lengths must be None for how='concatenate', whose rows are cut from a stream, "
                f"got {shorten(lengths)}"
            )
        return Pipeline(ConcatenatePack(self.stage, length, **options))

    @with_old_argument("window", "group")
    @explained_by(Bucket, fn_version="version", window="group")
    def bucket(
        self,
        length: Callable[[T], int] | Sequence[str],
        *,
        batch_size: int | None = None,
        max_tokens: int | Mapping[str, int] | None = None,
        group: int = 1024,
        seed: int = 0,
        boundaries: Sequence[int] | None = None,
        multiple_of: int | None = None,
        collate: Callable[[list[T]], Any] | None = None,
        drop_last: bool = False,
        version: str | int | None = None,
    ) -> Pipeline[Any]:
        """Batch items of like length, with little padding; see `resumable.stages.bucket.Bucket`."""
        is_function = callable(length) or not isinstance(length, (list, tuple))
        return Pipeline(
            Bucket(
                self.stage,
                length if is_function else None,  # type: ignore[arg-type]
                fields=None if is_function else length,  # type: ignore[arg-type]
                batch_size=batch_size,
                max_tokens=max_tokens,
                window=group,
                seed=seed,
                boundaries=boundaries,
                multiple_of=multiple_of,
                collate=collate,
                drop_last=drop_last,
                fn_version=version,
            )
        )

    @explained_by()
    def rebatch(self, batch_size: int, *, drop_last: bool = False) -> Pipeline[Any]:
        """Cut batches to another size: ``unbatch().batch(batch_size)``.

        Batches of numbers, as arrays or as dicts or tuples of arrays of shapes (n, ...), are cut
        and joined as arrays: no Python object is made for a row.

        State: O(1), the state of the upstream before the current batch, and an offset.

        Args:
          batch_size: rows of a batch, at least 1.
          drop_last: leave out a final batch shorter than ``batch_size``.

        Raises:
          InvalidArgument: if ``batch_size`` is less than 1.
          InvalidType: if an argument has the wrong type.
          MalformedItem: while iterating, if an item is not a batch.

        >>> list(rs.range(7).batch(3).rebatch(2))
        [array([0, 1]), array([2, 3]), array([4, 5]), array([6])]
        """
        return self.unbatch().batch(batch_size, drop_last=drop_last)

    @explained_by(Window)
    def window(
        self, size: int, *, shift: int | None = None, drop_last: bool = False
    ) -> Pipeline[Any]:
        """Slide a window of ``size`` items over the items, ``shift`` items further each time.

        See `resumable.stages.window.Window`.
        """
        return Pipeline(Window(self.stage, size=size, shift=shift, drop_last=drop_last))

    @explained_by(Repeat)
    def repeat(self, epochs: int | None = None) -> Pipeline[T]:
        """Repeat the items ``epochs`` times, each time as a new epoch, or endlessly.

        See `resumable.stages.repeat.Repeat`.
        """
        return Pipeline(Repeat(self.stage, epochs=epochs))

    @explained_by(Take)
    def take(self, count: int) -> Pipeline[T]:
        """Stop after ``count`` items, or at the end; see `resumable.stages.take.Take`."""
        return Pipeline(Take(self.stage, count))

    @explained_by(TakeWhile, fn_version="version")
    def take_while(
        self, predicate: Callable[[T], object], *, version: str | int | None = None
    ) -> Pipeline[T]:
        """Stop before the first item where ``predicate(item)`` is false.

        See `resumable.stages.take_while.TakeWhile`.
        """
        return Pipeline(TakeWhile(self.stage, predicate, fn_version=version))

    @explained_by(Skip)
    def skip(self, count: int) -> Pipeline[T]:
        """Leave out the first ``count`` items; see `resumable.stages.skip.Skip`."""
        return Pipeline(Skip(self.stage, count))

    @explained_by(Partition)
    def partition(  # noqa: D417  # `Partition` explains the rest
        self,
        count: int,
        fn: Callable[[Pipeline[T]], Pipeline[U]],
        *,
        workers: int = 0,
        executor: str | Executor = "thread",
        buffer_size: int | None = None,
    ) -> Pipeline[U]:
        """Divide the work among ranks and workers; see `resumable.stages.partition.Partition`.

        Args:
          count: number of partitions, from 1 to 16,384.
          fn: called once, with the pipeline of the items of partition 0; returns a pipeline built
            upon this pipeline.
        """
        options = {"workers": workers, "executor": executor, "buffer_size": buffer_size}
        return Pipeline(partitioning.partition([self.stage], count, fn, Pipeline, **options))

    @explained_by(Shard)
    def shard(self, index: int, count: int, *, uneven: str | None = None) -> Pipeline[T]:
        """Keep one rank's part: the item at ``index`` of each ``count`` consecutive items.

        See `resumable.stages.shard.Shard`.

        After a `partition` the part is the partitions of the rank, as explained in `partition`.
        Then ``uneven`` is ``"keep"`` by default, and otherwise ``"drop"``.
        """
        partitions = share_of(self.stage, index, count, uneven)
        chosen = "drop" if uneven is None else uneven
        return Pipeline(partitions or Shard(self.stage, index, count, uneven=chosen))

    @explained_by(Enumerate)
    def enumerate(self) -> Pipeline[tuple[int, T]]:
        """Number the items from 0 in every epoch: pairs of number and item.

        See `resumable.stages.enumerate.Enumerate`.
        """
        return Pipeline(Enumerate(self.stage))

    @explained_by(Cache)
    def cache(self) -> Pipeline[T]:
        """Keep the items in memory once made; see `resumable.stages.cache.Cache`."""
        return Pipeline(Cache(self.stage))

    @explained_by(Prefetch)
    def prefetch(self, buffer_size: int) -> Pipeline[T]:
        """Compute up to ``buffer_size`` items ahead in a thread.

        See `resumable.stages.prefetch.Prefetch`.
        """
        return Pipeline(Prefetch(self.stage, buffer_size))


@overload
def range(stop: int, /) -> Pipeline[int]: ...
@overload
def range(start: int, stop: int, step: int = 1, /) -> Pipeline[int]: ...
@explained_by(Range, begin="start")
def range(start: int, stop: int | None = None, step: int = 1, /) -> Pipeline[int]:
    """The integers of the built-in `range`: ``start``, ``start + step``, ... before ``stop``.

    See `resumable.sources.range.Range`.
    """
    if stop is None:
        return Pipeline(Range(start))
    return Pipeline(Range(stop, begin=start, step=step))


@explained_by(FromSequence, data_identity="identity")
def from_sequence(sequence: Indexable[T], *, identity: Identity = None) -> Pipeline[T]:
    """The items of anything with ``__len__`` and ``__getitem__``: a list, `numpy.memmap`, torch data set.

    See `resumable.sources.sequence.FromSequence`.
    """
    return Pipeline(FromSequence(sequence, data_identity=check_identity(identity)))


@explained_by(FromArrays, data_identity="identity")
def from_arrays(arrays: Any, *, identity: Identity = None) -> Pipeline[Any]:
    """The rows of an array, or of a tuple or dict of arrays with a common first axis.

    See `resumable.sources.arrays.FromArrays`.
    """
    return Pipeline(FromArrays(arrays, data_identity=check_identity(identity)))


@overload
def from_iterable(
    iterable: Iterable[T] | Callable[[], Iterable[T]],
    *,
    external_state_policy: str = "fail",
    identity: Identity = None,
) -> Pipeline[T]: ...
@overload
def from_iterable(
    iterable: Callable[[int], Iterable[T]],
    *,
    external_state_policy: str = "fail",
    identity: Identity = None,
) -> Pipeline[T]: ...
@explained_by(FromIterable, data_identity="identity")
def from_iterable(
    iterable: Iterable[T] | Callable[[], Iterable[T]] | Callable[[int], Iterable[T]],
    *,
    external_state_policy: str = "fail",
    identity: Identity = None,
) -> Pipeline[T]:
    """The items of any iterable, or of the iterable that a function returns.

    See `resumable.sources.iterable.FromIterable`.

    An indexable object without its own state gets random access.
    """
    known_as = check_identity(identity)
    source: FromIterable[T] = FromIterable(iterable, external_state_policy, data_identity=known_as)
    if source.indexable and is_sequence(iterable):
        return Pipeline(FromSequence(iterable, data_identity=known_as))  # type: ignore[arg-type]
    return Pipeline(source)


@explained_by(Partition)
def partition(  # noqa: D417  # `Partition` explains the rest
    sources: Mapping[str, Any] | Sequence[Any],
    count: int,
    fn: Callable[..., Pipeline[U]],
    *,
    workers: int = 0,
    executor: str | Executor = "thread",
    buffer_size: int | None = None,
) -> Pipeline[U]:
    """Divide work on several pipelines among ranks and workers: a part of each in every partition.

    So a mixture is exact in the results of ``fn``, such as rows of tokens, on any number of ranks
    and workers:

    >>> sources = {"code": rs.range(8), "prose": rs.range(100, 124)}
    >>> def mixed(code, prose):
    ...     parts = {"code": code.filter(lambda number: number != 2), "prose": prose}
    ...     return rs.mix(parts, weights={"code": 1, "prose": 3})
    >>> items = list(rs.partition(sources, 2, mixed))
    >>> [sum(number < 100 for number in items[first : first + 8]) for first in (0, 8, 16)]
    [2, 2, 2]

    A part used twice by ``fn`` delivers its items in both places. `Pipeline.partition` divides the
    work on one pipeline.

    Args:
      sources: a dict, list or tuple of pipelines, all with random access.
      count: number of partitions, from 1 to 16,384.
      fn: called once, with the part of each source for partition 0: as keyword arguments with the
        names of a dict, or in the order of a list; returns a pipeline built upon all parts.
    """
    options = {"workers": workers, "executor": executor, "buffer_size": buffer_size}
    checked = partitioning.checked_sources(sources)
    return Pipeline(partitioning.partition(checked, count, fn, Pipeline, **options))


@explained_by()
def by_epoch(pipelines: Mapping[int, Any]) -> Pipeline[Any]:
    """In each epoch the items of the last pipeline that begins by then.

    A single pipeline is returned unchanged. So a run without a planned change can be changed later.

    Args:
      pipelines: a dict of pipelines by their first epoch, ascending from 0.

    Raises:
      InvalidArgument: if the dict is empty, the epochs do not ascend from 0, the result of a later
        stage cannot be built, or a function with state is called again after epochs without the
        function.
      InvalidType: if ``pipelines`` is no dict, an epoch is no integer, or a value is not a
        pipeline.

    >>> list(rs.by_epoch({0: rs.range(2), 2: rs.range(7, 10)}).repeat(3))
    [0, 1, 0, 1, 7, 8, 9]
    """
    return Pipeline(checked_pipelines(pipelines))


@explained_by(Origins)
def origins(pipeline: Any) -> Pipeline[ItemOrigin]:
    """The origin of each item of ``pipeline``, instead of the item.

    See `resumable.shadows.shadow.Origins`.

    Args:
      pipeline: any pipeline.

    Raises:
      InvalidType: if ``pipeline`` is not a pipeline.
    """
    return Pipeline(Origins(as_stage(pipeline)))


@explained_by(Zip, upstreams="pipelines")
def zip(*pipelines: Any, strict: bool = False) -> Pipeline[Any]:
    """Tuples of one item of each pipeline, until the first ends; see `resumable.stages.zip.Zip`.

    A dict of pipelines gives dicts with one item each.
    """
    upstreams, names = _named(pipelines)
    return Pipeline(Zip(upstreams, names=names, strict=strict))


@explained_by(Concatenate, upstreams="pipelines")
def concatenate(*pipelines: Any) -> Pipeline[Any]:
    """All items of each pipeline, one after another.

    See `resumable.stages.concatenate.Concatenate`.

    The pipelines may also come in one dict. A state with other names, or in another order, is
    refused.
    """
    upstreams, names = _named(pipelines)
    return Pipeline(Concatenate(upstreams, names=names))


@explained_by(Interleave, upstreams="pipelines")
def interleave(*pipelines: Any, block_length: int = 1) -> Pipeline[Any]:
    """``block_length`` items of each pipeline in turn, until all have ended.

    See `resumable.stages.interleave.Interleave`.

    The pipelines may also come in one dict. A state with other names, or in another order, is
    refused.
    """
    upstreams, names = _named(pipelines)
    return Pipeline(Interleave(upstreams, names=names, block_length=block_length))


@explained_by(Mix, upstreams="pipelines")
def mix(
    *pipelines: Any,
    weights: AnyWeights | Mapping[int, AnyWeights] | None = None,
    seed: int | None = None,
    stop: str = "first",
    reshuffle: bool = False,
) -> Pipeline[Any]:
    """Items of all pipelines, each pipeline in its own order, in the proportions of ``weights``.

    See `resumable.stages.mix.Mix`.

    The pipelines may also come in one dict; then weights are a dict with the same names. A state
    with other names, or in another order, is refused, because the order decides the turns.
    """
    upstreams, names = _named(pipelines)
    given: Any = weights
    if isinstance(given, Mapping) and any(not isinstance(key, str) for key in given):
        by_item = given
        given = {first: _in_order(each, names, some=True) for first, each in given.items()}
        _check_each_is_weighed(by_item, names or ())
    else:
        given = _in_order(given, names)
    return Pipeline(
        Mix(upstreams, names=names, weights=given, seed=seed, stop=stop, reshuffle=reshuffle)
    )


def _in_order(weights: Any, names: tuple[str, ...] | None, *, some: bool = False) -> Any:
    """``weights`` in the order of ``names`` if given by name.

    With ``some``, the weight of a missing pipeline is 0.
    """
    if not isinstance(weights, Mapping):
        return weights
    known = set(names or ())
    if names is None or not (weights.keys() <= known if some else weights.keys() == known):
        raise InvalidArgument(
            f"weights must have the names of the pipelines, {shorten(names)}, got {shorten(weights)}"
        )
    return [weights.get(name, 0) for name in names]


def _check_each_is_weighed(weights: Mapping[Any, Any], names: Iterable[str]) -> None:
    """Refuse a pipeline that never has a weight, not even 0."""
    named = [each for each in weights.values() if isinstance(each, Mapping)]
    if len(named) < len(weights):
        return  # the remaining weights are for all pipelines
    for name in names:
        if not any(name in each for each in named):
            raise InvalidArgument(
                f"weights must say from where on each pipeline has one, got {shorten(weights)}, in which "
                f"{name!r} has none; write 0 for it if it is never to have one"
            )


def _named(pipelines: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[str, ...] | None]:
    """The upstreams of a combining stage, and their names if given in a dict."""
    if len(pipelines) == 1 and isinstance(pipelines[0], Mapping):
        return tuple(pipelines[0].values()), tuple(pipelines[0])
    return pipelines, None
