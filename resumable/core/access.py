"""Random access to the items of a stage, derived from the relation of the stage."""

# Items that only move are looked up in the inputs: the orders of earlier stages are computed for
# many indices at once. Each class of relations has one function here; no stage of the library has
# its own function.

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, final

import numpy as np

from ..errors import InvalidType
from .block import Block, Indices, block_items, slice_block, take_rows, ungroup
from .foreseen import Needs, PartUses
from .indexed import FIRST_BLOCK, LARGEST_BLOCK, Indexed
from .orders import check_reach, countable
from .prepared_items import PlainItems, PreparedItems
from .relation import (
    Aligned,
    Drawn,
    Grouped,
    Kept,
    Moved,
    Permuted,
    Relation,
    Repeated,
    Routed,
    Same,
    Sliced,
    Split,
)

MOST_EPOCHS: Final = 64
"""Number of epochs of a repeat that are kept set up at a time."""
NONE: Final = -1


def input_by_index(relation: Relation, number: int = 0) -> Indexed[Any]:
    """Random access to an input.

    Raises:
      InvalidType: if the input has no random access.
    """
    stage, epoch = relation.inputs(number)
    indexed: Indexed[Any] | None = stage.indexed(epoch)
    if indexed is None:
        raise InvalidType(f"{stage!r} has no random access: it can only be iterated")
    return indexed


def _of_same(relation: Same, upstream: Indexed[Any]) -> Indexed[Any]:
    make = relation.make
    if make is None:
        return upstream
    if make.beside is not None:
        return Indexed.joined([make.beside, upstream], make.blocks, make.items)
    return Indexed.joined([upstream], make.blocks, make.items, every_epoch=upstream.every_epoch)


def _of_order(relation: Moved, upstream: Indexed[Any]) -> Indexed[Any]:
    return Indexed.reordered(upstream, relation.indices_of, stride=relation.stride)


def _of_slice(relation: Sliced, upstream: Indexed[Any]) -> Indexed[Any]:
    only_fewer = relation.stop < math.inf and not relation.start and relation.step == 1
    return upstream if only_fewer else _of_order(relation, upstream)


def _of_turns(relation: Routed) -> Indexed[Any]:
    found = [input_by_index(relation, number) for number in range(len(relation.stage.inputs))]
    return Indexed.chosen(
        found.__getitem__,
        lambda indices: relation.turns().items_of(indices),
        indices_per_epoch=min(one.indices_per_epoch for one in found),
        items_each=max(one.items_each for one in found),
    )


def _of_epochs(relation: Repeated) -> Indexed[Any]:
    runs, first = relation.runs, input_by_index(relation)
    length = runs.length_of(0)
    if first.every_epoch and length and relation.ascending:
        return Indexed.reordered(first, lambda indices: indices % length, every_epoch=True)
    return Indexed.chosen(
        lru_cache(MOST_EPOCHS)(partial(input_by_index, relation)),
        runs.places,
        indices_per_epoch=min([first.indices_per_epoch, *filter(None, runs.lengths)]),
        items_each=first.items_each,
    )


def _of_rows(relation: Aligned) -> Indexed[Any]:
    found = [input_by_index(relation, number) for number in range(len(relation.stage.inputs))]
    return Indexed.joined(found, relation.make.blocks, relation.make.items)


def _of_groups(relation: Grouped, upstream: Indexed[Any]) -> Indexed[Any]:
    make = relation.make
    size, shift, length = relation.size, relation.step, relation.upstream_length or 0
    items = countable(length)
    gather = upstream.gather_range
    if not relation.is_slice:

        def gather(start: int, stop: int) -> Block:
            return upstream.gather(np.arange(start, stop, dtype=np.int64))

    def item(index: int) -> Any:
        stop = index * shift + size
        check_reach((stop if stop < length else int(length)) - 1)
        stop = min(stop, items)
        return make(gather(index * shift, stop))

    return Indexed(
        # Not `map`, which would take a StopIteration of ``make`` for the end.
        lambda indices: [item(index) for index in indices.tolist()],
        item,
        # A slice costs nothing, unless the order of the items has to be computed.
        prepare=None
        if relation.is_slice and upstream.prepare is None
        else partial(_PreparedGroups, relation, upstream),
        indices_per_epoch=upstream.indices_per_epoch / shift,
        needs=_needs_of_groups(relation, upstream.needs),
        items_each=upstream.items_each * max(min(size, items), 1),
    )


def _needs_of_groups(relation: Grouped, needs: Needs | None) -> Needs | None:
    if needs is None:
        return None

    def needed(indices: Indices, at: Indices) -> Iterator[PartUses]:
        made = relation.inputs_of(indices)
        return needs(made.indices, np.repeat(at, made.counts))  # type: ignore[arg-type]

    return needed


@final
@dataclass(eq=False)
class _PreparedGroups(PreparedItems[Any]):
    """Groups of consecutive items at ``indices``, shape (places,), int64, many prepared at once."""

    relation: Grouped
    upstream: Indexed[Any]
    indices: Indices
    # Invariant: for a `place` in `_known`, the group consists of the items of `_prepared` from
    # `_bounds[place - _known.start]` up to the next bound.
    _known: range = field(init=False, default=range(0))

    def gather(self, places: range) -> Block:
        return [self._group(place) for place in places]

    def items(self, places: range) -> Iterator[Any]:
        return map(self._group, places)

    def _group(self, place: int) -> Any:
        if place not in self._known:
            self._prepare(place)
        number = place - self._known.start
        part = range(self._bounds[number], self._bounds[number + 1])
        return self.relation.make(self._prepared.gather(part))

    def _prepare(self, place: int) -> None:
        relation, items = self.relation, countable(self.relation.upstream_length or 0)
        most = self.upstream.most_ahead(LARGEST_BLOCK if self._known else FIRST_BLOCK)
        count = most // min(relation.size, items)
        numbers = self.indices[place : place + max(count, 1)]
        _, indices, lengths = relation.inputs_of(numbers)
        assert lengths is not None
        self._prepared = self.upstream.prepared(indices)
        self._bounds = [0, *np.cumsum(lengths).tolist()]
        self._known = range(place, place + len(numbers))


def _of_parts(relation: Split, upstream: Indexed[Any]) -> Indexed[Any]:
    size = relation.size
    parts = _Expansions(upstream, size, relation.make)
    return Indexed(
        parts.gather,
        parts.item,
        prepare=partial(PlainItems, parts.gather, parts.items),
        every_epoch=upstream.every_epoch,
        indices_per_epoch=upstream.indices_per_epoch * size,
        needs=upstream.needs_of(lambda indices: indices // size),
        items_each=upstream.items_each,
    )


@dataclass(eq=False)
class _Expansions:
    """The ``size`` items that ``expand`` makes of each of ``upstream``, one after another."""

    upstream: Indexed[Any]
    size: int
    expand: Callable[[Any], Block]

    def gather(self, indices: Indices) -> Block:
        """The items at ``indices``, shape (n,); each item of upstream is expanded once."""
        origins, numbers = np.unique(indices // self.size, return_inverse=True)
        order = np.argsort(numbers, kind="stable")
        places = (indices % self.size)[order]
        bounds = np.searchsorted(numbers[order], np.arange(len(origins) + 1)).tolist()
        items = block_items(self.upstream.gather(origins))
        blocks = [
            take_rows(self.expand(item), places[begin:end])
            for item, begin, end in zip(items, bounds, bounds[1:], strict=False)
        ]
        return ungroup(blocks, order)

    def item(self, index: int) -> Any:
        """The item at ``index``."""
        return next(self.items([index]))

    def items(self, indices: list[int]) -> Iterator[Any]:
        """The items at ``indices``; neighbours are taken from the same expansion."""
        last = NONE
        block: Block = []

        def item(index: int) -> Any:
            nonlocal last, block
            number, place = divmod(index, self.size)
            if number != last:
                block = self.expand(self.upstream.item(number))
                last = number
            return block_items(slice_block(block, place, place + 1))[0]

        return map(item, indices)


OF_ONE_INPUT: Final[Mapping[type[Relation], Callable[[Any, Indexed[Any]], Indexed[Any]]]] = {
    Same: _of_same,
    Sliced: _of_slice,
    Permuted: _of_order,
    Drawn: _of_order,
    Kept: _of_order,
    Grouped: _of_groups,
    Split: _of_parts,
}
OF_INPUTS: Final[Mapping[type[Relation], Callable[[Any], Indexed[Any]]]] = {
    Routed: _of_turns,
    Repeated: _of_epochs,
    Aligned: _of_rows,
}


def indexed_by(relation: Any, default: object) -> Indexed[Any]:
    """Random access to the items of ``relation``, whose inputs have random access too.

    Args:
      relation: of the items.
      default: the calling `Stage.indexed`; a stage with another ``indexed`` is asked instead.
    """
    # A loop, since a chain of stages may be longer than a recursion.
    chain: list[tuple[Callable[[Any, Indexed[Any]], Indexed[Any]], Relation]] = []
    while (make := OF_ONE_INPUT.get(type(relation))) is not None:
        chain.append((make, relation))
        stage, epoch = relation.inputs(0)
        if type(stage).indexed is not default:
            indexed = input_by_index(relation)
            break
        relation = stage.relation(epoch)
    else:
        if type(relation) not in OF_INPUTS:
            raise InvalidType(
                f"relation of {type(relation.stage).__name__} must be one of those in resumable.core, got "
                f"{type(relation).__name__}; compose them by input_at, or define indexed"
            )
        indexed = OF_INPUTS[type(relation)](relation)
    for make, one in reversed(chain):
        indexed = make(one, indexed)
    return indexed
