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

Change: TypeAlias = Callable[[Stage[Any]], Stage[Any]]
"""Turns a stage as it is now into what it was then."""
ReachOf: TypeAlias = Callable[[Stage[Any], Change], float]
"""How many items of a stage were read, as it was then."""


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


def reach_before(
    stage: Stage[Any], position: SavedPosition, changes: Mapping[int, Change]
) -> ReachOf:
    """What was read of the stages of a pipeline for what was handed out before a position.

    Items that a resume reads again are passed over, as it will do.

    Args:
      stage: the last stage.
      position: of a state.
      changes: of the stages that were others then, by the `id` of the stage.
    """
    numbered = [id(found) for found, _ in walk(stage)]
    earlier = dict[int, Stage[Any]]()

    def change(number: int, found: Stage[Any]) -> Stage[Any]:
        key = numbered[number]
        earlier[key] = changes[key](found) if key in changes else found
        return earlier[key]

    reaches = _reaches(rebuilt(without_threads(stage), change), position)
    return lambda found, _: reach_of(earlier[id(found)], reaches)


def _reaches(was: Stage[Any], position: SavedPosition) -> list[Reach]:
    if any(source.reads_once for source, _ in inexact_sources(was)):
        return list(reached_all(was))  # what is passed over would be lost
    with closing(was.start(position.epoch)) as root:
        root.set_state(position.positions)
        return reached(root, was, position.epoch, position.ahead)
