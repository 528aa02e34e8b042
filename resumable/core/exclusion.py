"""The items left out of a stage, derived from the relation of the stage."""

# One function for each class of relations. Without a function for the class, an item may be made of
# several records, or the records are known only after reading. Refused although derivable:
#
# - `shard` (`by_ranks`): ranks would have different numbers of steps.
# - `enumerate` (`numbered`): the numbers beside the items would have gaps.
# - `cache` (`kept`): the cache keeps the items of its first epoch under their numbers.
# - `exclude` that leaves out records (not `keeps_all`): one stage lists all records, by the
#   item number from which each record is left out.
# - all items of an epoch of `repeat`, unless other partitions have some.
#
# Stages are not imported here, since some stages use these functions.

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from ..errors import InvalidArgument
from .left_out import AtPlaces, LeftOut
from .left_out_of_inputs import LeftOutInEpochs, OfInputs
from .orders import countable
from .record_source import kind_of_source
from .records import Records
from .relation import Aligned, Kept, Permuted, Relation, Repeated, Routed, Same, Sliced


def left_out_of(stage: Any, epoch: int, records: Records) -> LeftOut | None:
    """The items of ``epoch`` of ``stage`` that are made of ``records`` of the sources.

    None if an item may be made of several records, if the items are unknown, or if epochs differ in
    their number.

    Raises:
      InvalidArgument: if a source has no such records, or no item of a repeated epoch would remain.
    """
    # In a loop, since a chain may be longer than a recursion.
    moved: list[Any] = []
    relation: Any = None
    while stage.random_access:
        relation = stage.relation(epoch)
        if not (is_one := _is_one_for_one(relation)) and type(relation) not in MOVED:
            break
        if not is_one:
            moved.append(relation)
        records = stage._records_of_inputs(records)[0]
        stage, epoch = relation.inputs(0)
    found: LeftOut | None = None
    if stage.random_access:
        of_class = BY_RELATION.get(type(relation))
        if relation is None:
            found = AtPlaces.of(kind_of_source(stage)._numbers_of(stage, records))
        elif of_class:
            found = of_class(relation, records)
    for each in reversed(moved):
        found = found and MOVED[type(each)](each, found)
    return found


def stream_without(stage: Any, epoch: int, records: Mapping[int, Records]) -> Any:
    """A copy of ``stage``, a stream, without ``records`` in ``epoch``.

    Each key of ``records`` is the item from which the records are left out.

    Sources define the copy in `_without_records`. None if an item may be made of several records or
    depend on its number, or if the records of items are unknown.
    """
    relation = stage.relation(epoch)
    if relation is None:
        return kind_of_source(stage)._without_records(stage, epoch, records)
    if stage.random_access or not _is_one_for_one(relation) or not _is_by_item(relation):
        return None
    of_input = {first: stage._records_of_inputs(each)[0] for first, each in records.items()}
    source, its_epoch = relation.inputs(0)
    remaining = stream_without(source, its_epoch, of_input)
    if remaining is None or isinstance(relation, Kept) or len(stage.inputs) > 1:
        return remaining  # the items and states of the stage equal those of the input
    return stage._with_inputs((remaining,))


def check_records(stage: Any, epoch: int, records: Records) -> None:
    """Refuse ``records`` missing in the sources of ``stage``.

    Raises:
      InvalidArgument: if there are no such records.
    """
    if stage.random_access:
        left_out_of(stage, epoch, records)
    else:
        stream_without(stage, epoch, {0: records})


def _is_one_for_one(relation: Any) -> bool:
    """Whether item i is made of item i of one input, and may be left out with it."""
    if isinstance(relation, Kept):
        return relation.keeps_all
    return (
        isinstance(relation, Same)
        and not (relation.kept or relation.numbered)
        and (len(relation.stage.inputs) == 1 or relation.input_at is not None)
    )


def _is_by_item(relation: Any) -> bool:
    """Whether an item of a stream depends neither on its number nor on the items before it."""
    make = None if isinstance(relation, Kept) else relation.make
    if make is None:
        return not relation.in_order or relation.stage.unchanged
    # A stage that numbers the items for a function may be placed before this stage.
    return not relation.in_order and relation.inputs(0).stage is relation.stage.inputs[0]


def _known(found: Sequence[LeftOut | None]) -> list[LeftOut] | None:
    """``found``, if all are known."""
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def _of_some(relation: Sliced, before: LeftOut) -> LeftOut | None:
    upstream = relation.stage.inputs[0]
    stop = min(relation.stop, upstream.length)
    if relation.by_ranks or relation.items is not None or not before.can_be_listed(stop):
        return None
    # Where the order changes from epoch to epoch, the next epoch has other records among the items.
    alike = before.alike and (not before.total or upstream.indexed(0).every_epoch)
    return AtPlaces.of(relation.outputs_of(0, before.up_to(countable(stop))), alike=alike)


def _of_order(relation: Permuted, before: LeftOut) -> LeftOut | None:
    length = relation.stage.length
    if not before.can_be_listed():
        return None
    return AtPlaces(
        int(before.total),
        lambda: relation.outputs_of(0, before.up_to(countable(length))),
        alike=before.alike,
    )


def _of_rows(relation: Aligned, records: Records) -> LeftOut | None:
    """The left-out rows, if their records have the same number in all inputs."""
    lengths = set(relation.lengths)
    inputs = map(relation.inputs, range(len(relation.stage.inputs)))
    known = _known([left_out_of(*each, records) for each in inputs]) if len(lengths) == 1 else None
    length = relation.stage.length
    if known is None or not all(one.can_be_listed(length) for one in known):
        return None
    places = [one.up_to(countable(length)) for one in known]
    if not all(np.array_equal(one, places[0]) for one in places):
        return None
    return AtPlaces.of(places[0], alike=all(one.alike for one in known))


def _of_turns(relation: Routed, records: Records) -> LeftOut | None:
    stage = relation.stage
    found = [
        left_out_of(*relation.inputs(number), part) if part else AtPlaces.NOTHING
        for number, part in enumerate(stage._records_of_inputs(records))
    ]
    known = _known(found)
    if known is None:
        return None
    return OfInputs(known, stage.length, relation.turns, alike=_are_alike(relation, known))


def _are_alike(relation: Routed, inputs: Sequence[LeftOut]) -> bool:
    """Whether each of ``inputs`` with left-out items gives the same items in all epochs."""
    stage = relation.stage
    if stage.length == math.inf or not any(one.total for one in inputs):
        return True
    given = relation.given(int(stage.length))
    return all(
        count % max(upstream.length, 1) == 0 or upstream.indexed(0).every_epoch
        for one, (_, count), upstream in zip(inputs, given, stage.inputs, strict=True)
        if one.total
    )


def _of_epochs(relation: Repeated, records: Records) -> LeftOut | None:
    runs, split = relation.runs, relation.split
    if not runs.known:
        return None
    if split._changes:  # each pipeline by epoch has some of the records
        records = split._records_of_inputs(records)[0]

    def in_run(number: int) -> LeftOut | None:
        return left_out_of(*relation.inputs(number), records)

    found = _known([in_run(first) for first in runs.firsts])
    if found is None or not all(one.alike for one in found):
        return None
    lengths = list(map(runs.length_of, runs.firsts))
    kept = [length - int(one.total) for length, one in zip(lengths, found, strict=True)]
    for length, remaining in zip(lengths, kept, strict=True):
        if length and not remaining:
            _check_partition(relation, length)
    return LeftOutInEpochs(runs, kept, cast("Callable[[int], LeftOut]", in_run))


def _check_partition(relation: Repeated, length: int) -> None:
    """Refuse to leave out a whole epoch, unless other partitions have items and this one ends.

    Raises:
      InvalidArgument: if ``length`` are all items of the source.
    """
    in_partition = relation.in_partition()
    if not in_partition or relation.runs.epochs == math.inf:
        where = " in a partition, which is repeated without end" if in_partition else ""
        raise InvalidArgument(
            f"records must leave some of the source, got all {length} of them{where}"
        )


MOVED: Final[Mapping[type[Relation], Callable[[Any, LeftOut], LeftOut | None]]] = {
    Sliced: _of_some,
    Permuted: _of_order,
}
BY_RELATION: Final[Mapping[type[Relation], Callable[[Any, Records], LeftOut | None]]] = {
    Aligned: _of_rows,
    Routed: _of_turns,
    Repeated: _of_epochs,
}
