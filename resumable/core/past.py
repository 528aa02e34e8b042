"""How far a run had read when it was saved, asked of the pipeline as it was then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, NamedTuple, TypeAlias

from ..state.value import State
from .foreign_source import inexact_sources
from .graph import rebuilt, walk, without_threads
from .reach import Reach, reach_of, reached, reached_all
from .stage import Stage
from .timeline import UNBOUNDED, Timeline

ReachOf: TypeAlias = Callable[[Stage[Any], Timeline], float]
"""How many items of a stage were read, whose argument was a timeline then."""


class Past(NamedTuple):
    """What was read of a pipeline, and how it was then.

    Attributes:
      reach: how many items of a stage were read.
      then: a stage as it was; None where it is not yet known what has changed.
    """

    reach: ReachOf
    then: Callable[[Stage[Any]], Stage[Any] | None]


class SavedPosition(NamedTuple):
    """Where a state stands.

    Attributes:
      epoch: in which the iterator was started.
      positions: of the stages.
      ahead: items that were handed out since.
    """

    epoch: int
    positions: State
    ahead: int


def reach_before(stage: Stage[Any], position: SavedPosition, saved: Mapping[int, Timeline]) -> Past:
    """What was read of the stages of a pipeline for what was handed out before a position.

    Items that a resume reads again are passed over, as it will do.

    Args:
      stage: the last stage.
      position: of a state.
      saved: the timelines of the stages that had others then, by the `id` of the stage.
    """
    present = [found for found, _ in walk(stage)]
    numbered = list(map(id, present))
    timelines = {number: saved[key] for number, key in enumerate(numbered) if key in saved}
    was = without_threads(
        rebuilt(
            stage,
            lambda number, found: (
                found._with_timeline(timelines[number]) if number in timelines else found
            ),
        )
    )
    stages = [found for found, _ in walk(was)]
    reaches = _reaches(was, position)
    unbounded = {
        id(below)
        for now, then in zip(present, stages, strict=True)
        if not now._orders_as(then, reach_of(then, reaches))
        for upstream in now.inputs
        for below, _ in walk(upstream)
    }

    def reach(found: Stage[Any], _: Timeline) -> float:
        if id(found) in unbounded:
            return UNBOUNDED
        return reach_of(then(found), reaches)

    def then(found: Stage[Any]) -> Stage[Any]:
        return stages[numbered.index(id(found))]

    return Past(reach, then)


def _reaches(was: Stage[Any], position: SavedPosition) -> list[Reach]:
    if any(source.reads_once for source, _ in inexact_sources(was)):
        return list(reached_all(was))  # what is passed over would be lost
    with closing(was.start(position.epoch)) as root:
        root.set_state(position.positions)
        return reached(root, was, position.epoch, position.ahead)
