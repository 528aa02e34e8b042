"""How many items of each stage were read for those that an iterator has handed out."""

# A run may be changed where nothing depends on it yet. What was handed out depends on the items that
# were read for it, so a state is asked how many those are, stage by stage. Where that is not known, all
# items may have been read. A state that is set moves each iterator to where it was, so iterators over a
# stream know where they are. Where items are looked up by index, the numbers follow from the last one.
# Stages and iterators are not imported here, since iterators have these functions as their default.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from .relation import Repeated
from .reliance import LATER_EPOCHS, OVER_EPOCHS
from .timeline import UNBOUNDED

OF_LENGTHS: Final = (LATER_EPOCHS, OVER_EPOCHS)
"""Fields for one of these follow from how many items there are, as a partition may have more than another."""


class Reach(NamedTuple):
    """How many items of a stage were read in its epoch, at most.

    Attributes:
      stage: whose items they are.
      items: how many.
      epochs: how many epochs of its input were begun, if it goes through several.
    """

    stage: Any
    items: float
    epochs: float = UNBOUNDED


def reach_of(stage: Any, found: list[Reach]) -> float:
    """How many items of ``stage``, or of its copies in partitions, were read at most."""
    counts = [each.items for each in found if _same_graph(each.stage, stage)]
    return max(counts, default=UNBOUNDED)


def epochs_begun(stage: Any, found: list[Reach], *, only_saved: bool = False) -> float:
    """How many epochs of the input of ``stage``, or of its copies in partitions, were begun at most.

    With ``only_saved``, not if that follows from a number of items and the lengths of epochs.
    """
    same = [each for each in found if _same_graph(each.stage, stage)]
    if only_saved and any(each.items < UNBOUNDED for each in same):
        return UNBOUNDED
    return max((each.epochs for each in same), default=UNBOUNDED)


def reached(root: Any, stage: Any, epoch: int) -> list[Reach]:
    """The reach of every stage where an iterator stands, which this may move.

    Args:
      root: the iterator, without threads and workers.
      stage: whose motion it is.
      epoch: in which it was started. In a later one than the first, all items were read before.
    """
    return list(reached_all(stage) if epoch else root._reached())


def reached_by_index(stage: Any, count: float) -> Iterator[Reach]:
    """What is read for the first ``count`` items of ``stage`` in its first epoch.

    `UNBOUNDED` items may be items of any epoch, so no stage before ``stage`` can bound them again.
    """
    if count == UNBOUNDED:
        yield from reached_all(stage)
        return
    relation = stage.relation(0)
    begun = relation.epochs_begun(count) if isinstance(relation, Repeated) else UNBOUNDED
    yield Reach(stage, count, begun)
    for upstream, needed in zip(
        stage.inputs, relation.reads(count) if relation else (), strict=True
    ):
        yield from reached_by_index(upstream, needed)


def reached_in_epoch(stage: Any) -> Iterator[Reach]:
    """What is read for all items of ``stage`` in its first epoch, whose end was seen."""
    return reached_by_index(stage, UNBOUNDED if stage.length is None else stage.length + 1)


def reached_all(stage: Any) -> Iterator[Reach]:
    """What is read if ``stage`` may have read everything, in any of its epochs."""
    yield Reach(stage, UNBOUNDED)
    for upstream in stage.inputs:
        yield from reached_all(upstream)


def reached_by_motion(iterator: Any) -> Iterator[Reach]:
    """What is read where ``iterator`` stands, if its state holds those of its inputs as they are."""
    stage = iterator._stage
    if stage is None:
        return  # whatever it reads is not found, so all of it may have been read
    held = iterator._items_held
    if stage.inputs and (not iterator.inputs or held is None):
        yield from reached_all(stage)
    for upstream in iterator.inputs:
        upstream.skip(held or 0)
        yield from upstream._reached()


def _same_graph(one: Any, other: Any) -> bool:
    """Whether two stages are the same, or copies of one in several partitions."""
    return one is other or (
        type(one) is type(other)
        and all(
            getattr(one, name) == getattr(other, name)
            for name, field in one._identity_fields.items()
            if field.when not in OF_LENGTHS
        )
        and len(one.inputs) == len(other.inputs)
        and all(map(_same_graph, one.inputs, other.inputs))
    )
