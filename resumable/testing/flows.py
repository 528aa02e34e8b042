"""The law of a stage's claims about items: the `relation`, `unchanged` and `alone`."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import Any, Final

import numpy as np

from ..core.function_state import CallsFunction
from ..core.graph import with_inputs, without_threads
from ..core.relation import (
    Held,
    Kept,
    Permuted,
    Relation,
    Repeated,
    Same,
    kind_of,
    one_for_each,
)
from ..core.stage import Stage, by_index
from ..errors import InvalidArgument, shorten
from ..pipeline import Pipeline
from ..stages.partition import has_partitions
from .comparing import assert_same, same
from .laws import first_items, require

FEW: Final = 40


def items_flow_as_declared(pipeline: Pipeline[Any], limit: int = FEW) -> None:
    """The items of the last stage obey the stage's `relation`, `unchanged` and `alone`.

    Of longer inputs, ``limit`` items are tried.
    """
    stage = without_threads(pipeline.stage)
    relation = stage.relation(0)
    if relation is None or has_partitions(stage):
        return
    left = first_items(Pipeline(stage), limit)
    if stage.random_access and not isinstance(relation, Held) and not relation.in_order:
        _made_as_related(relation, left)
    _made_as_said(relation, left, limit)


def _made_as_related(relation: Relation, left: list[Any]) -> None:
    """Items, `reads` and `outputs_of` agree with `inputs_of`, for the first items: ``left``."""
    what, count = type(relation).__name__, len(left)
    numbers, indices, counts = relation.inputs_of(np.arange(count))
    numbers = np.zeros_like(indices) if numbers is None else numbers
    outputs = np.repeat(np.arange(count), 1 if counts is None else counts)
    made = list(zip(outputs.tolist(), numbers.tolist(), indices.tolist(), strict=True))
    for first in {1, (count + 1) // 2, count} if count else ():
        reads = relation.reads(first)
        for output, number, index in made:
            covers = output >= first or index < reads[min(number, len(reads) - 1)]
            require(covers, f"{what}.reads({first}) is {reads}, but item {index} is read")
    for number in set(numbers.tolist()):
        stage, epoch = relation.inputs(number)
        of_input = [(output, index) for output, of, index in made if of == number]
        last = max(index for _, index in of_input)
        require(
            last < (stage.length or 0),
            f"{what}: an item is made of item {last} of input {number}, which has {stage.length}",
        )
        for output, index in of_input if relation.stage.unchanged else ():
            is_it = same(left[output], by_index(stage, epoch).item(index))
            require(is_it, f"{what}: item {output} is not item {index} of input {number}")
        used = {index for _, index in of_input}
        with suppress(NotImplementedError):
            for items in [*zip({*used, *range(min(FEW, stage.length))}), sorted(used)]:
                found = relation.outputs_of(number, np.array(items, np.int64)).tolist()
                expected = {output for output, index in of_input if index in items}
                agrees = expected == {
                    one for one in found if one < count or count == relation.length
                }
                require(agrees, f"{what}.outputs_of({number}, {items}) is {found}, not {expected}")


def _made_as_said(relation: Relation, left: list[Any], limit: int) -> None:
    stage, kind = relation.stage, kind_of(relation.stage)
    entered = [first_items(Pipeline(one), limit) for one in stage.inputs]
    first, every = entered[0], list(chain.from_iterable(entered))
    what = (
        f"a stage that is {'unchanged ' * stage.unchanged}{'alone ' * stage.alone}{kind.__name__}"
    )
    if stage.unchanged and left and kind in (Same, Repeated):
        assert_same(left[: len(first)], first, what)
    if kind is Same:
        fits = len(left) == len(first) if one_for_each(stage) else len(left) <= len(first)
        require(fits, f"{what} made {len(left)} items of {len(first)}")
    if max(map(len, entered)) == limit or kind is Repeated:
        return
    if stage.unchanged and kind is Permuted:
        _assert_permuted(left, first, what)
    elif stage.unchanged:
        among = iter(every) if kind is Kept else every
        more = [item for item in left if not any(same(item, one) for one in among)]
        require(not more, f"{what} handed out more: {shorten(more)}")
    if stage.alone:
        _treats_items_alone(stage, kind, left, what)


def _treats_items_alone(stage: Stage[Any], kind: Any, left: list[Any], what: str) -> None:
    """``stage`` makes the same items, those in ``left``, when given only every second item."""
    if isinstance(stage, CallsFunction) and stage.carries_state:
        return
    halves = []
    for half in range(2):
        shard = Pipeline(stage.inputs[0]).shard(half, 2, uneven="keep").stage
        try:
            halves.append(first_items(Pipeline(with_inputs(stage, (shard,)))))
        except InvalidArgument:  # the stage cannot be copied
            return
        if kind is Same:
            assert_same(halves[half], left[half::2], f"{what}, of every second item")
    if kind is not Same:
        _assert_permuted(list(chain(*halves)), left, f"{what}, by every second item,")


def _assert_permuted(items: list[Any], expected: list[Any], what: str) -> None:
    rest = list(expected)
    for item in items:
        place = next((place for place, one in enumerate(rest) if same(item, one)), None)
        require(place is not None, f"{what} handed out more: {shorten(item)}")
        del rest[place or 0]
    require(not rest, f"{what} handed out less: {shorten(rest)}")
