"""How far a run had read when it was saved, asked of the pipeline as it was then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

from ..errors import InvalidArgument, InvalidType, StateMismatch
from ..state.value import State
from .epochs import by_epoch, one_by_epoch
from .foreign_source import inexact_sources
from .function_state import functions_kept
from .graph import rebuilt, walk, with_inputs, without_threads
from .reach import Reach, epochs_begun, reach_of, reached, reached_all
from .stage import Stage
from .timeline import UNBOUNDED

Change: TypeAlias = Callable[[Stage[Any]], Stage[Any]]
"""Turns a stage as it is now into what it was then."""
ReachOf: TypeAlias = Callable[[Stage[Any], Change], float]
"""How many items of a stage were read, as it was then."""


class InputThen(NamedTuple):
    """What the input of a stage was.

    Attributes:
      pairs: from which epoch on it was what; what it is now, where nothing there is the same.
      is_known: whether it is known in the first epoch.
    """

    pairs: Sequence[tuple[int, Stage[Any]]]
    is_known: bool


class Before(NamedTuple):
    """What was different in the pipeline of a saved state.

    Attributes:
      changes: of the stages that were others, by the `id` of the stage.
      inputs: of the stages that had others in some epochs, by the `id` of the stage.
    """

    changes: dict[int, Change]
    inputs: dict[int, InputThen]


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
      epochs: how many epochs of the input of a stage were begun; of the whole pipeline for None.
      refused: why the pipeline cannot be built with a change of one of its stages; None if it can.
      noting: takes what was different, where nothing of it is known yet.
    """

    epoch: Callable[[], int]
    reach: ReachOf
    then: Callable[[Stage[Any]], Stage[Any] | None]
    epochs: Callable[[Stage[Any] | None], float]
    refused: Callable[[Stage[Any] | None, Change], str | None]
    noting: Noting | None = None


class Noting(NamedTuple):
    """Takes what was different in a pipeline, before anything is read.

    Attributes:
      inputs: is called with a stage, None for the loop, and what its input was.
      reasons: takes why such an input is another one, with where a `by_epoch` may stand that is not there yet.
    """

    inputs: Callable[[Stage[Any] | None, InputThen], None]
    reasons: list[tuple[str, str | None]]


def past_of(stage: Stage[Any], position: SavedPosition, before: Before) -> Past:
    """What was read of the stages of a pipeline for what was handed out before a position.

    Items that a resume reads again are passed over, as it will do.

    Args:
      stage: the last stage.
      position: of a state.
      before: how the pipeline was then.

    Raises:
      StateMismatch: if the pipeline cannot have been like this.
    """
    present = [found for found, _ in walk(stage)]
    earlier = dict[int, Stage[Any]]()

    def as_it_was(number: int, found: Stage[Any]) -> Stage[Any]:
        key = id(present[number])
        if key in before.changes:
            try:
                found = before.changes[key](found)
            except (InvalidArgument, InvalidType) as error:
                raise StateMismatch(f"no stage was saved like this: {error}", found) from None
        if key in before.inputs:
            pairs = [(first, earlier[id(one)]) for first, one in before.inputs[key].pairs]
            found = with_inputs(found, (by_epoch(one_by_epoch(pairs)),))
        earlier[key] = found
        return found

    try:
        was = rebuilt(without_threads(stage), as_it_was)
    except (InvalidArgument, InvalidType) as error:
        raise StateMismatch(f"this pipeline cannot be built as it was: {error}", stage) from None

    @cache
    def known() -> tuple[int, list[Reach]]:
        try:
            return _reaches(was, position)
        except InvalidArgument as error:
            raise StateMismatch(
                f"no run of this pipeline can have this state: {error}", stage
            ) from None

    @cache
    def unbounded() -> set[int]:
        return {
            id(below)
            for now in present
            if not now._run_changes.orders_as(now, then(now), reach_of(then(now), known()[1]))
            for upstream in now.inputs
            for below, _ in walk(upstream)
        }

    def then(found: Stage[Any]) -> Stage[Any]:
        return earlier[id(found)]

    def reach(found: Stage[Any], _: Change) -> float:
        return UNBOUNDED if id(found) in unbounded() else reach_of(then(found), known()[1])

    def epochs(found: Stage[Any] | None) -> float:
        if found is None:
            return position.epoch + 1
        inputs = before.inputs.get(id(found))
        only_saved = inputs is not None and not inputs.is_known
        if only_saved and position.ahead:
            return UNBOUNDED
        try:
            return epochs_begun(then(found), known()[1], only_saved=only_saved)
        except StateMismatch:  # it is a state of something else
            return UNBOUNDED

    return Past(lambda: known()[0], reach, then, epochs, partial(why_not_built, stage))


def why_not_built(root: Stage[Any], changed: Stage[Any] | None, change: Change) -> str | None:
    """Why the pipeline up to ``root`` cannot be built with ``change`` of one of its stages; None if it can.

    Args:
      root: the last stage.
      changed: the stage; None for the whole pipeline.
      change: of it.
    """
    present = [found for found, _ in walk(root)]
    try:
        if changed is None:
            change(root)
        else:
            rebuilt(root, lambda number, one: change(one) if present[number] is changed else one)
    except (InvalidArgument, InvalidType) as error:
        return str(error)
    return None


def _reaches(was: Stage[Any], position: SavedPosition) -> tuple[int, list[Reach]]:
    epoch = position.epoch_reached
    if any(source.reads_once for source, _ in inexact_sources(was)):
        # What is passed over would be lost.
        return position.epoch if epoch is None else epoch, list(reached_all(was))
    # An iterator that runs calls the same functions, and goes on if the state is refused.
    with functions_kept(was), closing(was.start(position.epoch)) as root:
        root.set_state(position.positions)
        root.skip(position.ahead)
        if epoch is None:
            epoch = root.epoch
        return epoch, reached(root, was, position.epoch)
