"""The law of what a stage says it does to items: its `flow`."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from ..core.flow import Flow
from ..core.function_state import CallsFunction
from ..core.graph import with_inputs, without_threads
from ..core.stage import Stage
from ..errors import InvalidArgument, shorten
from ..pipeline import Pipeline
from ..stages.partition import has_partitions
from .comparing import assert_same, same
from .laws import first_items, require

FEW: Final = 40


def items_flow_as_declared(pipeline: Pipeline[Any], limit: int = FEW) -> None:
    """The last stage does to the items of its inputs what its `flow` says.

    Inputs that have ``limit`` items or more are tried as far as that.
    """
    stage = without_threads(pipeline.stage)
    flow = stage.flow
    if flow is Flow.ANY or not stage.inputs or (has_partitions(stage) and flow is Flow.JOINED):
        return
    entered = [first_items(Pipeline(one), limit) for one in stage.inputs]
    left, first = first_items(Pipeline(stage), limit), entered[0]
    what = f"a stage whose flow is {flow.name}"
    if flow is Flow.SAME or (flow is Flow.REPEATED and left):
        assert_same(left[: len(first)], first, what)
    if flow.one_for_each:
        require(len(left) == len(first), f"{what} made {len(left)} items of {len(first)}")
    if max(map(len, entered)) == limit:
        return
    if flow is Flow.COUNTED:
        require(len(left) <= len(first), f"{what} made {len(left)} items of {len(first)}")
    if flow in (Flow.FILTERED, Flow.SUBSET):
        rest = iter(first)
        _require_none([item for item in left if not _found(item, rest)], f"{what} handed out more")
    if flow is Flow.JOINED:
        every = list(chain.from_iterable(entered))
        _require_none([item for item in left if not _found(item, every)], f"{what} handed out more")
    if flow is Flow.REORDERED:
        _assert_permuted(left, first, what)
    if flow in (Flow.ONE_TO_ONE, Flow.FILTERED):
        _treats_items_alone(stage, left, what)


def _treats_items_alone(stage: Stage[Any], left: list[Any], what: str) -> None:
    """``stage`` makes of every second item what it makes of it among all: ``left``."""
    if has_partitions(stage) or (isinstance(stage, CallsFunction) and stage.carries_state):
        return
    halves = []
    for half in range(2):
        shard = Pipeline(stage.inputs[0]).shard(half, 2, uneven="keep").stage
        try:
            halves.append(first_items(Pipeline(with_inputs(stage, (shard,)))))
        except InvalidArgument:  # it cannot be copied
            return
    if stage.flow is Flow.ONE_TO_ONE:
        for half, items in enumerate(halves):
            assert_same(items, left[half::2], f"{what}, of every second item")
    else:
        _assert_permuted(list(chain.from_iterable(halves)), left, f"{what}, by every second item,")


def _assert_permuted(items: list[Any], expected: list[Any], what: str) -> None:
    rest = list(expected)
    for item in items:
        place = next((place for place, one in enumerate(rest) if same(item, one)), None)
        _require_none([item] if place is None else [], f"{what} handed out more")
        del rest[place or 0]
    _require_none(rest, f"{what} handed out less")


def _found(item: Any, among: Any) -> bool:
    return any(same(item, one) for one in among)


def _require_none(items: list[Any], message: str) -> None:
    require(not items, f"{message}: {shorten(items)}")
