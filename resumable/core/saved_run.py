"""The reads of a saved run from each stage, and the pipeline of the run."""

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
    """The input of a stage in the saved run.

    Attributes:
      pairs: (first epoch, input) pairs; the present input where the saved input is unknown.
      is_known: whether the input of the first epoch is known.
    """

    pairs: list[tuple[int, Stage[Any]]]
    is_known: bool


@final
@dataclass
class SavedRun:
    """How far a saved run had read of its pipeline, and the pipeline of that time.

    Items that a resume reads again are passed over, as the resume will do. The reads are determined
    only after all differences of the pipeline are noted.

    Attributes:
      stage: the last stage of the present pipeline.
      position: of the state.
      lists_arguments: whether all arguments by position are wanted, even where they disagree.
      undo: turns a stage back into the stage of the run, by the `id` of the stage.
      inputs: saved inputs of the stages whose input differs by epoch, by the `id` of the stage.
      problems: mismatches between the pipelines of an epoch, at any position of the run.
    """

    stage: Stage[Any]
    position: SavedPosition
    lists_arguments: bool
    undo: dict[int, StageEdit] = field(default_factory=dict)
    inputs: dict[int, EarlierInput] = field(default_factory=dict)
    problems: list[Mismatch] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        """The epoch of the last item handed out."""
        return self._reaches[0]

    def as_it_was(self, stage: Stage[Any]) -> Stage[Any]:
        """The stage of the run in place of ``stage``."""
        return self._earlier[id(stage)]

    def items_read(self, stage: Stage[Any]) -> float:
        """Number of items read of ``stage``, at most."""
        if id(stage) in self._unbounded:
            return UNBOUNDED
        return reach_of(self.as_it_was(stage), self._reaches[1])

    def epochs_begun(self, stage: Stage[Any] | None) -> float:
        """Epochs begun of the input of ``stage``, at most; of the whole pipeline for None."""
        if stage is None:
            return self.position.epoch + 1
        inputs = self.inputs.get(id(stage))
        only_saved = inputs is not None and not inputs.is_known
        if only_saved and self.position.ahead:
            return UNBOUNDED
        try:
            return epochs_begun(self.as_it_was(stage), self._reaches[1], only_saved=only_saved)
        except StateMismatch:  # a state of another pipeline
            return UNBOUNDED

    def why_not_built(self, edited: Stage[Any] | None, edit: StageEdit) -> str | None:
        """Why the pipeline cannot be built with ``edit`` of one of its stages; None if it can.

        Args:
          edited: the stage; None for the whole pipeline.
          edit: the edit of ``edited``.
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
        """The stages of the run, by the `id` of the present stage.

        Raises:
          StateMismatch: if such a pipeline cannot be built.
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
        """The epoch of the last item, and the reach of each stage."""
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
        # Items passed over would be lost.
        return position.epoch if epoch is None else epoch, list(reached_all(was))
    # A running iterator calls the same functions, and continues if the state is refused.
    with functions_kept(was), closing(was.start(position.epoch)) as root:
        root.set_state(position.positions)
        root.skip(position.ahead)
        if epoch is None:
            epoch = root.epoch
        return epoch, reached(root, was, position.epoch)
