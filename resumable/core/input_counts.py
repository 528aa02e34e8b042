"""Items given by each input of a mixture, derived from the state of a pipeline."""

# Items read by a stage and items given by its inputs are two numbers: the end of an input is read,
# and not given. So a number that may count an end is limited to the length of the input.

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from .combine import Combine, joins_inputs
from .epochs import in_epoch
from .relation import Aligned, Grouped, Permuted, Relation, Repeated, Same, Sliced
from .stage import Stage, known_length
from .stage_iterator import StageIterator
from .timeline import UNBOUNDED

PLAIN: Final = (Same, Grouped, Aligned)
"""Relations whose further items do not depend on earlier items."""
OF_ALL: Final = (Same, Permuted, Repeated)


class InputCount(NamedTuple):
    """The items given by one input of a mixture.

    Attributes:
      items: number of items in the epoch of the mixture.
      length: items in a pass over the input; None if unknown or endless.
      of_rank: whether only items of this rank are counted, and not of all ranks.
    """

    items: int
    length: int | None
    of_rank: bool


Counts: TypeAlias = "Iterator[tuple[str, InputCount]]"


def input_counts(root: StageIterator[Any]) -> dict[str, InputCount]:
    """The items given by inputs of `mix`, `concatenate` and `interleave`, by name or number.

    If a mixture is an input of another mixture, or of another stage with several inputs, names are
    joined by a slash. An input is left out if its number does not follow from the state.

    Args:
      root: an iterator without threads, positioned at a state.
    """
    return dict(_by_motion(root, 0, ""))


def passes_over(counts: Mapping[str, InputCount]) -> dict[str, float]:
    """How often each input was gone through, where the length is known."""
    return {name: one.items / one.length for name, one in counts.items() if one.length}


def _by_motion(
    iterator: StageIterator[Any], ahead: float, prefix: str, of_rank: bool = True
) -> Counts:
    """The counts where ``iterator`` has handed out ``ahead`` items more than in its state."""
    stage, again = iterator._stage, iterator._items_held
    if not isinstance(stage, Stage) or again is None or ahead == UNBOUNDED:
        return
    if iterator._skipped_in_copies("") is not None:  # as a whole, copies have another place
        if not ahead:
            yield from _added([dict(_by_motion(one, 0, prefix)) for one in iterator.inputs])
        return
    relation = stage.relation(0)
    reached = relation.reads(ahead) if ahead and isinstance(relation, PLAIN) else None
    if (found := iterator._place_by_index()) is not None:
        indexed, epoch, items = found
        is_own = indexed is stage
        further = ahead if is_own or not ahead else (reached or [UNBOUNDED])[0]
        yield from _by_index(indexed, items + further, epoch, prefix, of_rank and is_own)
        return
    if joins_inputs(stage):
        yield from _named(stage, iterator._given_by_inputs(int(ahead)), prefix, of_rank)
    for number, upstream in enumerate(iterator.inputs[: len(stage.inputs)]):
        place = iterator._first_input + number
        further = reached[place] if reached else UNBOUNDED if ahead else 0
        same = of_rank and stage.inputs[place]._rank_share.ranks == stage._rank_share.ranks
        yield from _by_motion(upstream, again + further, prefix + _part(stage, place), same)


def _by_index(stage: Stage[Any], items: float, epoch: int, prefix: str, of_rank: bool) -> Counts:
    """The counts where the first ``items`` of ``stage`` in ``epoch`` were handed out."""
    if items == UNBOUNDED:
        return
    stage = in_epoch(stage, epoch)
    relation = stage.relation(epoch)
    if relation is None or _is_part(relation):
        return
    given = relation.given(int(min(items, known_length(stage))))
    if joins_inputs(stage):
        yield from _named(stage, [count for _, count in given], prefix, of_rank)
    for place, ((upstream, its_epoch), count) in enumerate(given):
        same = of_rank and upstream._rank_share.ranks == stage._rank_share.ranks
        yield from _by_index(upstream, count, its_epoch, prefix + _part(stage, place), same)


def _added(parts: Sequence[Mapping[str, InputCount]]) -> Counts:
    """The sums over copies, of the inputs known in every copy."""
    for name in parts[0]:
        found = [part[name] for part in parts if name in part]
        if len(found) == len(parts):
            lengths = [one.length for one in found if one.length is not None]
            length = sum(lengths) if len(lengths) == len(found) else None
            yield name, InputCount(sum(one.items for one in found), length, True)


def _named(stage: Stage[Any], given: Sequence[float | None], prefix: str, of_rank: bool) -> Counts:
    for name, upstream, items in zip(_names(stage), stage.inputs, given, strict=False):
        if items is not None and items != UNBOUNDED:
            yield prefix + name, InputCount(int(items), _pass_length(upstream), of_rank)


def _pass_length(stage: Stage[Any]) -> int | None:
    """The number of items in an epoch of the stage repeated by ``stage``; None if unknown."""
    while len(stage.inputs) == 1 and isinstance(stage.relation(0), OF_ALL):
        (stage,) = stage.inputs
    return None if stage._changes or stage.length in (None, math.inf) else int(stage.length)


def _is_part(relation: Relation) -> bool:
    """Whether other partitions have the rest of the items of the input."""
    return isinstance(relation, Sliced) and relation.step > 1 and not relation.by_ranks


def _names(stage: Stage[Any]) -> Sequence[str]:
    names = stage.names if isinstance(stage, Combine) else None
    return names or [str(number) for number in range(len(stage.inputs))]


def _part(stage: Stage[Any], place: int) -> str:
    """The name of an input and a slash, if ``stage`` has several inputs."""
    return f"{_names(stage)[place]}/" if len(stage.inputs) > 1 else ""
