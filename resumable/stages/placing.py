"""Let items travel with their places in their partitions, up to a random map."""

# The place of an item is known only where its partition hands the item out. The number of earlier
# items of a rank depends on the number of ranks, and on which partitions have ended. So the stages
# between the partitions and a `RandomMap` are copied for the map. The copies take items with their
# places, and pass only the items to the functions of the user.

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, final

import numpy as np

from ..core import CallsFunction, PassThrough, Stage
from ..core.callables import StandIn
from ..core.epochs import ByEpoch
from ..core.graph import walk, with_inputs
from ..order.random_bits import derive, generator
from .filter import Filter
from .map import CallsPerItem, Map
from .partition import Partition
from .repeat import Repeat

T = TypeVar("T")

InPartition: TypeAlias = tuple[int, int, Any]
"""An epoch, the place of an item in the epoch, and the item.

The place is position * number of partitions + number of the partition.
"""


def keeps_places(stage: Stage[Any]) -> bool:
    """Whether each item of ``stage`` is made of one item of a partition, and of nothing else."""
    while not isinstance(stage, Partition):
        if isinstance(stage, ByEpoch):
            return all(map(keeps_places, stage.upstreams))
        if not makes_one_of_one(stage):
            return False
        (stage,) = stage.inputs
    return True


def makes_one_of_one(stage: Stage[Any]) -> bool:
    """Whether ``stage`` makes an item of one item, or of none, and holds nothing of its rank."""
    if isinstance(stage, PassThrough):
        return stage.ignores_items
    if not isinstance(stage, (CallsPerItem, Filter, Repeat)):
        return False
    carries_state = isinstance(stage, CallsFunction) and stage.carries_state
    return stage.alone and not carries_state


def with_places(stage: Stage[Any]) -> Stage[InPartition]:
    """A copy of ``stage``, which `keeps_places`, that delivers its items with their places."""
    if isinstance(stage, Partition):
        return dataclasses.replace(stage, placing=True)
    if isinstance(stage, ByEpoch):
        return with_inputs(stage, tuple(map(with_places, stage.upstreams)))
    (upstream,) = map(with_places, stage.inputs)
    if isinstance(stage, CallsPerItem):
        # The function of a random map gets the place with the item.
        called = OfItem(stage.called) if isinstance(stage, Map) else stage.called
        return Map(
            upstream,
            KeepsPlace(called),
            fn_version=stage.fn_version,
            workers=stage.workers,
            executor=stage.executor,
        )
    if isinstance(stage, Filter):
        return Filter(upstream, OfItem(stage.predicate), fn_version=stage.fn_version)
    return with_inputs(stage, (upstream,))


def copied_from(stage: Stage[Any], copy: Stage[Any], found: object) -> Stage[Any] | None:
    """The original, in ``stage``, of the stage ``found`` of ``copy``; None without one."""
    pairs = zip(walk(copy), walk(stage), strict=True)
    return next((theirs for (ours, _), (theirs, _) in pairs if ours is found), None)


@final
class OfItem(StandIn[Callable[[Any], T]]):
    """Calls a function with the item alone."""

    def __call__(self, placed: InPartition) -> T:
        return self.fn(placed[2])


@final
class DrawsInPartition(StandIn[Callable[[Any, np.random.Generator], T]]):
    """Calls a function with an item and the generator of its place; sent to workers."""

    def __init__(self, fn: Callable[[Any, np.random.Generator], T], seed: int) -> None:
        super().__init__(fn)
        self._seed = seed

    def __call__(self, placed: InPartition) -> T:
        epoch, place, item = placed
        return self.fn(item, generator(derive(self._seed, epoch), place))


@final
class KeepsPlace(StandIn[Callable[[InPartition], Any]]):
    """Calls a function that takes a placed item, and returns the result with the same place."""

    def __call__(self, placed: InPartition) -> InPartition:
        return *placed[:2], self.fn(placed)
