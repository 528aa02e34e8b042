"""Divide the work of pipelines into independent partitions, owned by ranks and workers."""

# `fn` is called once, with a `Part` of each source for partition 0; the resulting pipeline is the
# upstream of the stage. So the fingerprint, descriptions and all walks over a graph see it like any
# other stages. The pipelines of the other partitions are copies with another number in the parts.

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, TypeVar, final

from ..core import (
    PARTS,
    CallsFunction,
    Flow,
    Held,
    IdentityField,
    IdentityFields,
    Length,
    SavedState,
    Stage,
    StageIterator,
    Transform,
    computed_once,
)
from ..core.arguments import check_below, check_choice
from ..core.epochs import ByEpoch
from ..core.graph import rebuilt, walk, with_inputs
from ..core.rank_share import RankShare
from ..core.relation import kind_of
from ..core.stage import InputShadows, OwnsPartitions, RunsAhead
from ..errors import InvalidArgument
from ..state.partitions import PARTITIONS, states_of_partitions
from ..workers.partition_pool import PartitionWorkersConfig, check_workers_config
from ..workers.skips import without_listeners
from .even_steps import EvenIterator
from .exclude import Exclude
from .map_pools import maps_with_processes
from .part import Part, down_to_parts
from .partition_iterator import PartitionIterator
from .placed_partitions import PlacedPartitionIterator

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Partition(RunsAhead[T], OwnsPartitions[T], Transform[T]):
    """The items of independent partitions, one of each in turn.

    Partition k of ``count`` is a separate pipeline: ``fn`` over the items k, k + ``count``, k + 2
    ``count`` and so on of each partitioned pipeline. So ``fn`` may filter, pack, shuffle and batch
    without reading items of other partitions. ``count`` is fixed for a run; choose a multiple of
    all numbers of ranks and workers you expect.

    ``fn`` may build only on the parts passed to it. Another source in ``fn`` is refused, since
    every partition would deliver the source in full. `resumable.partition` deals out several
    sources. Pipelines used by a function within ``fn`` are not checked: the function must make them
    from its item.

    Ranks own partitions: ``shard(rank, ranks)`` after ``partition``, or after later stages that
    take one item at a time (``map``, ``filter``, ``random_map``, ``prefetch``) and ``repeat``,
    leaves each rank the partitions k with k % ranks == rank. Workers own the partitions of their
    rank in the same way. Put stages that group, count or reorder items (``batch``, ``take``,
    ``enumerate``, ``shuffle``) into ``fn``, or after the ``shard``.

    The order takes one item of each partition in turn, and passes over ended partitions. Ranks that
    advance together deliver this order if their number divides ``count`` and no partition has
    ended.

    State: O(partitions of the rank): for each partition the position, whether it has ended, and the
    state. A rank resumes from any state with its partitions. For another number of ranks, join the
    states of all ranks by `merge_states`. A resume re-reads only as much as the stages of the
    partitions do.

    With ``uneven="keep"``, the default of a ``shard`` here, each rank delivers all its items. With
    ``"drop"`` all ranks end when the first rank ends. With ``"pad"`` an ended rank repeats its last
    items until the longest rank ends. ``"drop"`` and ``"pad"`` need partitions of known length: no
    rank sees the other ranks' items.

    Args:
      upstream: the pipeline of partition 0.
      workers: number of threads or processes that run whole partitions, 0 for none. May differ between
        save and resume, as may ``executor`` and ``buffer_size``.
      executor: where the workers are, as in `Map`. Items must be picklable for processes.
      buffer_size: number of items of each partition that workers compute ahead, at least 1. By
        default 4 at first, doubled for a partition whose buffer was full, and then empty when the
        loop needed an item; up to 64, while the items of all partitions take no more than about 64
        MiB.

    A map in ``fn`` may start its own processes if ``workers`` is 0 here; all partitions of the rank
    share one pool. A map with threads has threads for each partition.

    When a worker process dies, a new worker continues the partitions at the next item. A partition
    that ends its worker three times at the same item raises `WorkerError` that names the source
    item in work. A map in ``fn`` with ``on_error="skip"`` drops the item instead. Workers report
    dropped items together with finished items; then ``on_skip`` is called, and ``iterator.skipped``
    counts the dropped items.

    Raises:
      InvalidType: if a partitioned pipeline has no random access, ``fn`` returns no pipeline, or an
        argument has the wrong type.
      InvalidArgument: if a number is out of range, if ``fn`` leaves out one of its parts, builds on
        another source, partitions again, has functions that carry state, or a map with processes
        under ``workers``, if ranks outnumber partitions, or if ``uneven`` is another word, needs
        unknown lengths, or is not ``"keep"`` where some ranks end and others do not.
      MissingDependency: for processes without the extra ``parallel``.

    >>> numbers = rs.range(12).partition(3, lambda part: part.filter(lambda n: n % 4).batch(2))
    >>> [batch.tolist() for batch in numbers]
    [[3, 6], [1, 7], [2, 5], [9], [10], [11]]
    >>> [batch.tolist() for batch in numbers.shard(0, 3)]
    [[3, 6], [9]]
    """

    state_cost = SavedState("the states of its partitions", levels=2)
    identity: ClassVar[IdentityFields] = {
        "index": IdentityField(
            PARTS,
            hint="a stage or a function after it holds something of its rank, so each rank resumes from "
            "its own state",
            names_rank=True,
        ),
        "ranks": IdentityField(
            PARTS,
            shown_as="count of ranks",
            hint="it may change only where no later stage holds items of its rank",
        ),
        "uneven": PARTS,
    }

    index: int = 0
    ranks: int = 1
    uneven: str = "keep"
    workers: int = 0
    executor: str | Executor = "thread"
    buffer_size: int | None = None
    # Whether items come with their places, for a random map.
    placing: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.parts:
            raise InvalidArgument(
                f"upstream must be what fn builds of a part, got {self.upstream!r}; use "
                "Pipeline.partition"
            )
        check_choice("uneven", self.uneven, ("drop", "pad", "keep"))
        check_workers_config(self._workers_config)
        for found in maps_with_processes(self.upstream) if self.workers else ():
            raise InvalidArgument(
                f"workers must be 0 where a map in fn starts processes of its own, got {self.workers} "
                f"and {found}; leave out the workers of the map: those of the partition run it"
            )
        for stage, _ in walk(self.upstream):
            if isinstance(stage, Partition):
                raise InvalidArgument(f"fn must not partition again, got {stage} in it")
            if isinstance(stage, CallsFunction) and stage.carries_state:
                raise InvalidArgument(
                    "functions in a partition must carry no state of their own, since all partitions "
                    f"would share them, got {stage}"
                )
        if self.ranks > self.count:
            raise InvalidArgument(
                f"count of ranks must be at most the number of partitions, {self.count}, got {self.ranks}"
            )
        if self.uneven != "keep" and self.length is None:
            raise InvalidArgument(
                f"uneven must be 'keep' over partitions whose length is unknown, got {self.uneven!r}: no "
                "rank sees where the others end; repeat() within the partitions never ends"
            )
        if self.uneven != "keep" and self.length == math.inf:
            self._check_all_endless()
        finite = self.length is not None and self.length != math.inf
        if self.uneven == "pad" and finite and self.length and not self.own_total():
            raise InvalidArgument(
                f"uneven='pad' repeats items of a rank, but the partitions of rank {self.index} of "
                f"{self.ranks} have none"
            )

    def _check_all_endless(self) -> None:
        """Refuse finite ranks beside endless ranks."""
        for rank in range(self.ranks):
            if (total := self._total(rank)) != math.inf:
                raise InvalidArgument(
                    f"uneven must be 'keep' where some ranks never end, got {self.uneven!r}: the partitions of "
                    f"rank {rank} of {self.ranks} end after {total} items; are there fewer records than partitions?"
                )

    def __str__(self) -> str:
        fields = super().__str__().partition("(")[2]
        return f"Partition(count={self.count}{', ' * (fields != ')')}{fields}"

    @property
    def unchanged(self) -> bool:
        return not self.placing

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        return with_inputs(self, inputs.alike)

    @computed_once
    def count(self) -> int:
        """Number of partitions of all ranks."""
        return self.parts[0].count

    @computed_once
    def parts(self) -> tuple[Part[Any], ...]:
        """The parts in the pipeline of partition 0."""
        return tuple(found for found in down_to_parts(self.upstream) if isinstance(found, Part))

    @property
    def numbers(self) -> range:
        """The partitions of this rank."""
        return range(self.index, self.count, self.ranks)

    @property
    def _rank_share(self) -> RankShare:
        return RankShare(self.index, self.ranks)

    @property
    def own_partitions(self) -> range:
        return self.numbers

    def over_partition(self, number: int) -> Partition[T]:
        return self.share_of(self.numbers.index(number), len(self.numbers), "keep")

    def is_own(self, state: Any) -> bool:
        """Whether ``state``, of the pipeline or a part of it, has just the rank's partitions."""
        found = [one[PARTITIONS] for one in states_of_partitions(state)]
        return bool(found) and all(numbers == list(self.numbers) for numbers in found)

    @computed_once
    def pipelines(self) -> tuple[Stage[T], ...]:
        """The pipelines of the partitions of this rank."""
        return tuple(map(self.pipeline, self.numbers))

    def pipeline(self, number: int) -> Stage[T]:
        """The pipeline of partition ``number``."""
        return _for_partition(self.upstream, number)

    @computed_once
    def length(self) -> Length:
        # If the first length is unknown, no other pipeline has to be made.
        if self.upstream.length is None:
            return None
        lengths = [length for _, length in self._lengths]
        if None in lengths:
            return None
        if self.uneven == "keep":
            return self._total(self.index)
        return math.inf if math.inf in lengths else self.steps_after({})

    def own_total(self) -> int:
        """Number of items of all partitions of this rank, if their lengths are known and finite."""
        return int(self._total(self.index))

    def steps_after(self, positions: Mapping[int, int]) -> int:
        """Number of steps left on all ranks, after the partitions have handed out ``positions``."""
        left = [int(self._total(rank)) for rank in range(self.ranks)]
        for number, position in positions.items():
            left[number % self.ranks] -= position
        return max(min(left) if self.uneven == "drop" else max(left), 0)

    def _total(self, rank: int) -> int | float:
        """Number of items of all partitions of ``rank``; `math.inf` if a partition is endless."""
        total = 0
        for alike, length in self._lengths:
            first = alike.start + (rank - alike.start) % self.ranks
            if own := len(range(first, alike.stop, self.ranks)):
                if length == math.inf:
                    return math.inf
                total += own * int(length or 0)
        return total

    @computed_once
    def _lengths(self) -> tuple[tuple[range, Length], ...]:
        """Runs of partitions with equally many items of each source, and the length of each."""
        # The first partitions get one item more of a source than later partitions. Left-out records
        # may lie anywhere.
        sources = [part.upstream.length for part in self.parts]
        rests = {int(n) % self.count for n in sources if n is not None and n != math.inf}
        starts = {0, self.count} | (set(range(self.count)) if self._leaves_out else rests)
        runs = map(range, *zip(*pairwise(sorted(starts)), strict=True))
        return tuple((alike, self.pipeline(alike.start).length) for alike in runs)

    @property
    def _leaves_out(self) -> bool:
        """Whether records are left out of the parts, so that their lengths differ."""
        stages = down_to_parts(self.upstream)
        return any(isinstance(found, Exclude) and found.changes for found in stages)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        if self.uneven == "keep" or self.ranks == 1 or self.length == math.inf:
            return self.start_own(epoch)
        return EvenIterator(self, epoch)

    def start_own(self, epoch: int, *, plainly: bool = False) -> StageIterator[T]:
        """An iterator of all items of the partitions of this rank, in workers unless ``plainly``."""
        config = self._workers_config._replace(workers=0) if plainly else self._workers_config
        kind = PlacedPartitionIterator if self.placing else PartitionIterator
        return kind(self, epoch, config)

    def share_of(self, index: int, count: int, uneven: str) -> Partition[T]:
        """The stage with only those partitions of this rank that go to ``index`` of ``count``."""
        index, count = check_below("index", index, "count", count)
        return dataclasses.replace(
            self,
            index=self.index + self.ranks * index,
            ranks=self.ranks * count,
            uneven=uneven,
        )

    @property
    def _workers_config(self) -> PartitionWorkersConfig:
        pipeline = without_listeners(self.upstream) if self.workers else self.upstream
        return PartitionWorkersConfig(
            partial(_for_partition, pipeline), self.workers, self.executor, self.buffer_size
        )


def share_of(stage: Stage[T], index: int, count: int, uneven: str | None) -> Stage[T] | None:
    """``stage`` for rank ``index`` of ``count``, if its items come from partitions.

    Raises:
      InvalidArgument: if a stage after the partition does not keep the partitions apart.
    """
    if isinstance(stage, Partition):
        return stage.share_of(index, count, uneven or stage.uneven)
    if isinstance(stage, ByEpoch) and has_partitions(stage):
        pairs = [(one, share_of(one, index, count, uneven)) for one in stage.upstreams]
        if not all(shared for _, shared in pairs):
            raise InvalidArgument(
                "shard deals out either partitions or items, but some pipelines of a by_epoch have partitions "
                f"and others have none, got {stage!r}"
            )
        return with_inputs(stage, tuple(shared for _, shared in pairs if shared))
    if stage.alone:
        (upstream,) = stage.inputs
        shared = share_of(upstream, index, count, uneven)
        return shared and with_inputs(stage, (shared,))
    if has_partitions(stage):
        raise InvalidArgument(
            f"shard cannot keep the partitions before {stage} apart{_without_relation(stage)} put shard right "
            "after partition, and what groups, counts, reorders or joins items after shard or in the "
            "function of the partition"
        )
    return None


def _without_relation(stage: Stage[Any]) -> str:
    """What the author of ``stage`` may have left out, up to the start of the advice to the user."""
    if (
        kind_of(stage) is not Held
        or stage.unchanged
        or type(stage).__module__.startswith(f"{__package__}.")
    ):
        return ";"
    return (
        f", since {type(stage).__name__} does not say what its items are made of; if it makes each item of one "
        f"item of upstream alone, {Flow.ONE_TO_ONE.advice}; otherwise"
    )


def has_partitions(stage: Stage[Any]) -> bool:
    """Whether ``stage`` delivers items of partitions, so that the states of ranks differ."""
    return any(isinstance(found, Partition) for found, _ in walk(stage))


def _for_partition(stage: Stage[T], number: int) -> Stage[T]:
    """The pipeline of a partition, for partition ``number``."""

    def change(_: int, found: Stage[Any]) -> Stage[Any]:
        return dataclasses.replace(found, index=number) if isinstance(found, Part) else found

    return rebuilt(stage, change)
