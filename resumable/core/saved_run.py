"""How far a run had read of a pipeline when it was saved."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

from ..errors import InvalidArgument, InvalidType, StateMismatch
from .epochs import by_epoch, one_by_epoch
from .foreign_source import inexact_sources
from .function_state import functions_kept
from .graph import rebuilt, walk, with_inputs, without_threads
from .mismatch import Mismatch
from .reach import Reach, epochs_begun, reach_of, reached, reached_all
from .runnable import SavedPosition
from .stage import Stage
from .timeline import UNBOUNDED

StageEdit: TypeAlias = Callable[[Stage[Any]], Stage[Any]]
"""Makes another stage of a stage."""


class EarlierInput(NamedTuple):
    """What the input of a stage was.

    Attributes:
      pairs: (first epoch, input) pairs; the present input where the saved one is unknown.
      is_known: whether it is known in the first epoch.
    """

    pairs: list[tuple[int, Stage[Any]]]
    is_known: bool


@final
@dataclass
class SavedRun:
    """How far a run had read of a pipeline when it was saved, and what the pipeline was then.

    Items that a resume reads again are passed over, as the resume will do. How far the run was is asked only once
    all differences of the pipeline are noted.

    Attributes:
      stage: the last stage of the present pipeline.
      position: of the state.
      lists_arguments: whether all arguments by position are wanted, which may then disagree.
      undo: makes of a stage what it was, by the `id` of the stage.
      inputs: saved inputs of the stages whose input differs by epoch, by the `id` of the stage.
      problems: mismatches between the pipelines of an epoch, wherever the run stands in them.
    """

    stage: Stage[Any]
    position: SavedPosition
    lists_arguments: bool
    undo: dict[int, StageEdit] = field(default_factory=dict)
    inputs: dict[int, EarlierInput] = field(default_factory=dict)
    problems: list[Mismatch] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        """Of the last item that was handed out."""
        return self._reaches[0]

    def as_it_was(self, stage: Stage[Any]) -> Stage[Any]:
        """``stage`` as it was."""
        return self._earlier[id(stage)]

    def items_read(self, stage: Stage[Any]) -> float:
        """How many items of ``stage`` were read, at most."""
        if id(stage) in self._unbounded:
            return UNBOUNDED
        return reach_of(self.as_it_was(stage), self._reaches[1])

    def epochs_begun(self, stage: Stage[Any] | None) -> float:
        """How many epochs of the input of ``stage`` were begun, at most; of the whole pipeline for None."""
        if stage is None:
            return self.position.epoch + 1
        inputs = self.inputs.get(id(stage))
        only_saved = inputs is not None and not inputs.is_known
        if only_saved and self.position.ahead:
            return UNBOUNDED
        try:
            return epochs_begun(self.as_it_was(stage), self._reaches[1], only_saved=only_saved)
        except StateMismatch:  # it is a state of something else
            return UNBOUNDED

    def why_not_built(self, edited: Stage[Any] | None, edit: StageEdit) -> str | None:
        """Why the pipeline cannot be built with ``edit`` of one of its stages; None if it can.

        Args:
          edited: the stage; None for the whole pipeline.
          edit: of it.
        """
        present = [found for found, _ in walk(self.stage)]
        try:
            if edited is None:
                edit(self.stage)
            else:
                rebuilt(self.stage, lambda at, one: edit(one) if present[at] is edited else one)
        except (InvalidArgument, InvalidType) as error:
            return str(error)
        return None

    @cached_property
    def _earlier(self) -> dict[int, Stage[Any]]:
        """Each stage as it was, by the `id` of the stage of now.

        Raises:
          StateMismatch: if the pipeline cannot have been like this.
        """
        present = [found for found, _ in walk(self.stage)]
        earlier = dict[int, Stage[Any]]()

        def as_it_was(number: int, found: Stage[Any]) -> Stage[Any]:
            key = id(present[number])
            if key in self.undo:
                try:
                    found = self.undo[key](found)
                except (InvalidArgument, InvalidType) as error:
                    raise StateMismatch(f"no stage was saved like this: {error}", found) from None
            if key in self.inputs:
                pairs = [(first, earlier[id(one)]) for first, one in self.inputs[key].pairs]
                found = with_inputs(found, (by_epoch(one_by_epoch(pairs)),))
            earlier[key] = found
            return found

        try:
            rebuilt(without_threads(self.stage), as_it_was)
        except (InvalidArgument, InvalidType) as error:
            raise StateMismatch(
                f"this pipeline cannot be built as it was: {error}", self.stage
            ) from None
        return earlier

    @cached_property
    def _reaches(self) -> tuple[int, list[Reach]]:
        """The epoch of the last item, and how far each stage was read."""
        try:
            return _read_until(self.as_it_was(self.stage), self.position)
        except InvalidArgument as error:
            raise StateMismatch(
                f"no run of this pipeline can have this state: {error}", self.stage
            ) from None

    @cached_property
    def _unbounded(self) -> set[int]:
        """The `id` of every stage before a stage whose order has changed."""
        return {
            id(below)
            for now, _ in walk(self.stage)
            if not now._run_changes.orders_as(
                now, self.as_it_was(now), reach_of(self.as_it_was(now), self._reaches[1])
            )
            for upstream in now.inputs
            for below, _ in walk(upstream)
        }


def _read_until(was: Stage[Any], position: SavedPosition) -> tuple[int, list[Reach]]:
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
