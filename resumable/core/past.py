"""How far a run had read when it was saved, asked of the pipeline as it was then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, NamedTuple, TypeAlias

from ..errors import InvalidArgument, InvalidType, StateMismatch
from ..state.value import State
from .foreign_source import inexact_sources
from .graph import rebuilt, walk, without_threads
from .reach import Reach, reach_of, reached, reached_all
from .stage import Stage
from .timeline import UNBOUNDED

Change: TypeAlias = Callable[[Stage[Any]], Stage[Any]]
"""Turns a stage as it is now into what it was then."""
ReachOf: TypeAlias = Callable[[Stage[Any], Change], float]
"""How many items of a stage were read, as it was then."""


class SavedPosition(NamedTuple):
    """Where a state stands.

    Attributes:
      fingerprint: of its pipeline.
      epoch: in which the iterator was started.
      step: number of items handed out.
      ahead: items that were handed out since these positions.
      positions: of the stages.
      epoch_reached: the epoch of the last item, if the state has it.
    """

    fingerprint: Any
    epoch: int
    step: int
    ahead: int
    positions: State
    epoch_reached: int | None


class Past(NamedTuple):
    """What was read of a pipeline for what was handed out before a position, and how it was then.

    Attributes:
      epoch: of the last item that was handed out.
      reach: how many items of a stage were read.
      then: a stage as it was; None where it is not yet known what has changed.
    """

    epoch: int
    reach: ReachOf
    then: Callable[[Stage[Any]], Stage[Any] | None]


def past_of(stage: Stage[Any], position: SavedPosition, changes: Mapping[int, Change]) -> Past:
    """What was read of the stages of a pipeline for what was handed out before a position.

    Items that a resume reads again are passed over, as it will do.

    Args:
      stage: the last stage.
      position: of a state.
      changes: of the stages that were others then, by the `id` of the stage.
    """
    present = [found for found, _ in walk(stage)]
    earlier = dict[int, Stage[Any]]()

    def as_it_was(number: int, found: Stage[Any]) -> Stage[Any]:
        key = id(present[number])
        try:
            earlier[key] = changes[key](found) if key in changes else found
        except (InvalidArgument, InvalidType) as error:
            raise StateMismatch(f"no stage was saved like this: {error}", found) from None
        return earlier[key]

    def then(found: Stage[Any]) -> Stage[Any]:
        return earlier[id(found)]

    epoch, reaches = _reaches(rebuilt(without_threads(stage), as_it_was), position)
    unbounded = {
        id(below)
        for now in present
        if not now._orders_as(then(now), reach_of(then(now), reaches))
        for upstream in now.inputs
        for below, _ in walk(upstream)
    }

    def reach(found: Stage[Any], _: Change) -> float:
        return UNBOUNDED if id(found) in unbounded else reach_of(then(found), reaches)

    return Past(epoch, reach, then)


def _reaches(was: Stage[Any], position: SavedPosition) -> tuple[int, list[Reach]]:
    epoch = position.epoch_reached
    if any(source.reads_once for source, _ in inexact_sources(was)):
        # What is passed over would be lost.
        return position.epoch if epoch is None else epoch, list(reached_all(was))
    with closing(was.start(position.epoch)) as root:
        root.set_state(position.positions)
        root.skip(position.ahead)
        if epoch is None:
            epoch = root.epoch
        return epoch, reached(root, was, position.epoch)
