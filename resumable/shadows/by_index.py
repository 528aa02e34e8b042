"""The records of an item, and the items with a record, for stages with lookup by index."""

# Both follow from the relations of the stages: no item is read, and no function of the user is called.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, repeat
from typing import Any, Final, NamedTuple, final

import numpy as np

from ..core.block import NO_INDICES, Indices
from ..core.graph import walk
from ..core.indexed import Indexed
from ..core.made_of import epoch_at
from ..core.orders import countable
from ..core.origin import BatchOrigin, ItemOrigin, Name, Origin, ZipOrigin
from ..core.prepared_items import PreparedItems
from ..core.record_source import kind_of_source
from ..core.relation import Aligned, Made, Relation, Repeated, Routed, Split
from ..core.stage import Stage
from ..core.timeline import UNBOUNDED
from .traced import names_of_inputs, row_origins

RECORDS_AHEAD: Final = 4096
"""Origins of about so many records are made at once."""


def follows_from_relations(stage: Stage[Any]) -> bool:
    """Whether ``stage`` and the stages before have random access and relations by index."""
    relations = (found.relation(0) for found, _ in walk(stage))
    return stage.random_access and not any(one is not None and one.in_order for one in relations)


def origins_by_index(stage: Stage[Any], epoch: int, items: Indexed[Any]) -> Indexed[ItemOrigin]:
    """The origins of the ``items`` of ``stage`` in ``epoch``."""
    gather = partial(origins_at, stage, epoch)
    return Indexed(
        gather,
        prepare=partial(_PreparedOrigins, gather, items.items_within(RECORDS_AHEAD)),
        every_epoch=items.every_epoch,
        indices_per_epoch=items.indices_per_epoch,
        items_each=items.items_each,
    )


@final
@dataclass(eq=False)
class _PreparedOrigins(PreparedItems[ItemOrigin]):
    """The origins at ``indices``, shape (places,), int64; ``at_once`` origins are made together."""

    gather_at: Callable[[Indices], list[ItemOrigin]]
    at_once: int
    indices: Indices

    def gather(self, places: range) -> list[ItemOrigin]:
        return self.gather_at(self.indices[places.start : places.stop])

    def items(self, places: range) -> Iterator[ItemOrigin]:
        for start in range(places.start, places.stop, self.at_once):
            yield from self.gather(range(start, min(start + self.at_once, places.stop)))


def origins_at(stage: Stage[Any], epoch: int, indices: Indices) -> list[ItemOrigin]:
    """The origins of items at ``indices``, shape (n,), of a stage that `follows_from_relations`."""
    # A loop if each item comes from the same input: a chain may be longer than a recursion.
    while (relation := stage.relation(epoch)) is not None:
        made = relation.inputs_of(indices)
        if isinstance(relation, Split):
            return _of_parts(relation, indices)
        if made.numbers is not None or made.counts is not None:
            return _of_several(relation, made)
        (stage, epoch), indices = relation.inputs(0), made.indices
    return list(kind_of_source(stage)._origins(stage, indices))


def _of_parts(relation: Split, indices: Indices) -> list[ItemOrigin]:
    size = relation.size
    wholes, places = np.unique(indices // size, return_inverse=True)
    parts = [
        row_origins(size, whole, in_order=relation.in_rows)
        for whole in origins_at(*relation.inputs(0), wholes)
    ]
    pairs = zip(places.tolist(), (indices % size).tolist(), strict=True)
    return [parts[place][part] for place, part in pairs]


def _of_several(relation: Relation, made: Made) -> list[ItemOrigin]:
    """The origins of items with several inputs, or made of several items."""
    names = names_of_inputs(relation.stage)
    numbers = np.zeros_like(made.indices) if made.numbers is None else made.numbers
    found: list[Any] = [None] * len(numbers)
    for number in np.unique(numbers).tolist():
        here = np.flatnonzero(numbers == number)
        of_input = origins_at(*relation.inputs(number), made.indices[here])
        if isinstance(relation, Routed):
            through = partial(Origin.through, name=names[number])
            of_input = [origin.mapped(through) for origin in of_input]
        for place, origin in zip(here.tolist(), of_input, strict=True):
            found[place] = origin
    if made.counts is None:
        return found
    ordered = iter(found)
    rows = (tuple(islice(ordered, count)) for count in made.counts.tolist())
    if isinstance(relation, Aligned):
        return [ZipOrigin(dict(zip(names, row, strict=True))) for row in rows]
    return [BatchOrigin(row) for row in rows]


@final
@dataclass(frozen=True)
class Sought:
    """The sought records, among the records with one number in their file or source.

    Args:
      number: of the records.
      is_wanted: whether the record of an origin, with this number, is sought.
    """

    number: int
    is_wanted: Callable[[Origin], bool]

    def is_in(self, origin: ItemOrigin) -> bool:
        """Whether an item with ``origin`` was made of any sought record."""
        return any(one.record == self.number and self.is_wanted(one) for one in origin.records())


class ItemSpan(NamedTuple):
    """Some items of a stage that `follows_from_relations`.

    Attributes:
      stage: source of the items.
      epoch: of ``stage``.
      start: index of the first item.
      stop: index after the last item, at most the length.
      inputs: the inputs of later stages on the way of the items, the last stage first.
    """

    stage: Stage[Any]
    epoch: int
    start: int
    stop: int
    inputs: tuple[Name, ...] = ()


def items_with(sought: Sought, span: ItemSpan) -> Indices:
    """The indices, shape (n,), ascending, of the items of ``span`` with ``sought`` records.

    If a batch is split into rows again, all rows are included if the batch has a sought record.
    """
    stage, epoch, start, stop, inputs = span
    if start >= stop:
        return NO_INDICES
    relation = stage.relation(epoch)
    if relation is None:
        return _records_with(sought, span)
    found = [NO_INDICES]
    if isinstance(relation, Repeated):
        runs = relation.runs
        for number in range(runs.epoch_with(start), runs.epoch_with(stop - 1) + 1):
            before = int(runs.items_before(number))
            within = max(start - before, 0), min(stop - before, runs.length_of(number))
            inside = ItemSpan(*relation.inputs(number), *within, inputs)
            found.append(before + items_with(sought, inside))
    else:
        for number, inside in enumerate(_spans_read(relation, span)):
            found.append(relation.outputs_of(number, items_with(sought, inside)))
    items = np.unique(np.concatenate(found))
    return items[(items >= start) & (items < stop)]


def _spans_read(relation: Relation, span: ItemSpan) -> Iterator[ItemSpan]:
    """Spans of the items of each input that include all inputs of ``span``."""
    _, _, start, stop, inputs = span
    starts: Any = repeat(0)
    if isinstance(relation, Routed):
        starts = relation.turns().turns_before(start)
    elif relation.ascending:
        starts = repeat(int(relation.inputs_of(np.array([start], np.int64)).indices[0]))
    names = names_of_inputs(relation.stage) if isinstance(relation, Routed) else repeat(None)
    for (of_input, items), first, name in zip(relation.given(stop), starts, names, strict=False):
        last = countable(of_input.stage.length or 0) if items == UNBOUNDED else int(items)
        through = inputs if name is None else (*inputs, name)
        yield ItemSpan(*of_input, int(min(first, last)), last, through)


def _records_with(sought: Sought, span: ItemSpan) -> Indices:
    numbers: Indices = kind_of_source(span.stage)._numbers_with(span.stage, sought.number)
    numbers = numbers[(numbers >= span.start) & (numbers < span.stop)]
    origins = kind_of_source(span.stage)._origins(span.stage, numbers)
    wanted = [sought.is_wanted(replace(origin, inputs=span.inputs)) for origin in origins]
    return numbers[np.array(wanted, np.bool_)]


def end_of_epoch(stage: Stage[Any], epoch: int, index: int) -> int | None:
    """The index after the last item of the epoch of item ``index``, if epochs follow one another.

    None if items of a later epoch may come earlier.
    """
    found = epoch_at(stage, epoch, index)
    low, high = index, countable(stage.length or 0)
    if found is None:
        return high
    if not found.ascending:
        return None
    # Invariant: item `low` is in the epoch; item `high` is not, or does not exist.
    while low + 1 < high:
        middle = (low + high) // 2
        if epoch_at(stage, epoch, middle) == found:
            low = middle
        else:
            high = middle
    return high
