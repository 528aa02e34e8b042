"""How many items of each stage were read for the items that an iterator has handed out."""

# A run may be changed where no handed-out item depends on the change. Handed-out items depend on
# the items read for them, so a state is asked how many were read, stage by stage. Where the number
# is unknown, all items may have been read. Setting a state moves each iterator to its saved
# position, so iterators over a stream know their position. Where items are looked up by index, the
# numbers follow from the last index. Stages and iterators are not imported here, since iterators
# use these functions as defaults.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from .identity import LATER_EPOCHS, OVER_EPOCHS
from .relation import Repeated
from .timeline import UNBOUNDED

OF_LENGTHS: Final = (LATER_EPOCHS, OVER_EPOCHS)
"""Fields for these reliances follow from the number of items, which differs between partitions."""


class Reach(NamedTuple):
    """How many items of a stage were read in its epoch, at most.

    Attributes:
      stage: the stage read from.
      items: number of items.
      epochs: number of epochs of the input begun, if the stage goes through several.
    """

    stage: Any
    items: float
    epochs: float = UNBOUNDED


def reach_of(stage: Any, found: list[Reach]) -> float:
    """Items read of ``stage``, or of its copies in partitions, at most."""
    counts = [each.items for each in found if _same_graph(each.stage, stage)]
    return max(counts, default=UNBOUNDED)


def epochs_begun(stage: Any, found: list[Reach], *, only_saved: bool = False) -> float:
    """Epochs begun of the input of ``stage``, or of its copies in partitions, at most.

    With ``only_saved``, `UNBOUNDED` if the number would follow from a number of items and lengths
    of epochs.
    """
    same = [each for each in found if _same_graph(each.stage, stage)]
    if only_saved and any(each.items < UNBOUNDED for each in same):
        return UNBOUNDED
    return max((each.epochs for each in same), default=UNBOUNDED)


def reached(root: Any, stage: Any, epoch: int) -> list[Reach]:
    """The reach of every stage at the position of an iterator, which may be moved.

    Args:
      root: the iterator, without threads and workers.
      stage: the stage of ``root``.
      epoch: epoch in which ``root`` was started. In a later epoch than the first, all items were
        read before.
    """
    return list(reached_all(stage) if epoch else root._reached())


def reached_by_index(stage: Any, count: float) -> Iterator[Reach]:
    """The reach for the first ``count`` items of ``stage`` in its first epoch.

    `UNBOUNDED` items may be items of any epoch, so no earlier stage can bound the number again.
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
    """The reach after all items of the first epoch of ``stage``, including the end."""
    return reached_by_index(stage, UNBOUNDED if stage.length is None else stage.length + 1)


def reached_all(stage: Any) -> Iterator[Reach]:
    """The reach if ``stage`` may have read everything, in any of its epochs."""
    yield Reach(stage, UNBOUNDED)
    for upstream in stage.inputs:
        yield from reached_all(upstream)


def reached_by_motion(iterator: Any) -> Iterator[Reach]:
    """The reach at the position of ``iterator``, if its state holds current states of inputs."""
    stage = iterator._stage
    if stage is None:
        return  # the input is unknown, so all of it may have been read
    held = iterator._items_held
    if stage.inputs and (not iterator.inputs or held is None):
        yield from reached_all(stage)
    for upstream in iterator.inputs:
        upstream.skip(held or 0)
        yield from upstream._reached()


def _same_graph(one: Any, other: Any) -> bool:
    """Whether two stages are the same, or copies of the same stage in several partitions."""
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
