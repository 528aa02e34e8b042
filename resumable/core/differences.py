"""Differences between a pipeline and a saved pipeline, and which differences a run may have."""

# Some differences are mismatches at any position of the run. Others depend on the items read, as
# `SavedRun` knows: an argument by position may differ for later items, inputs may join, and
# pipelines of later epochs may change.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, final

from .argument_change import ArgumentChange
from .mismatch import Mismatch, Rule
from .saved_run import SavedRun, StageEdit
from .stage import Stage
from .timeline import INPUTS, UNBOUNDED, ByPosition, Timeline


class EpochSpan(NamedTuple):
    """Epochs in which one of several pipelines holds.

    Attributes:
      stage: name of the counter of epochs, as in its `FoundArgument`.
      path: path of the counter.
      first: the first epoch.
      following: the epoch after the last.
    """

    stage: str
    path: str
    first: int
    following: float


class FoundArgument(NamedTuple):
    """An argument by position of a pipeline that resumes a run.

    Attributes:
      stage: name of the stage with the argument.
      path: of the stage.
      value: the saved and the present value, and the position from which the argument may differ.
      within: the epochs in which the stage exists, for pipelines by epoch, the outermost first.
    """

    stage: str
    path: str
    value: ArgumentChange
    within: tuple[EpochSpan, ...] = ()


@dataclass(frozen=True)
class Difference(ABC):
    """A difference between a pipeline and a saved pipeline.

    Attributes:
      mismatches: mismatches if both must be equal.
      stage: of the pipeline.
      undo: turns ``stage`` back into the stage of the run, if the stage may have changed.
    """

    mismatches: Sequence[Mismatch]
    stage: Stage[Any]
    undo: StageEdit | None = None

    def fixed(self, run: SavedRun) -> Mismatch | None:
        """The mismatch at any position of the run; None if a mismatch depends on the position.

        The difference is noted in ``run``.
        """
        if self.undo is not None and (self.mismatches or run.lists_arguments):
            run.undo[id(self.stage)] = self.undo
        return None

    @abstractmethod
    def in_run(self, run: SavedRun) -> Iterator[Mismatch | FoundArgument]:
        """The mismatch at the position of ``run``, or the argument if the run lists arguments."""

    def _argument(self, path: str, change: ArgumentChange) -> FoundArgument:
        return FoundArgument(type(self.stage).__name__, path, change)


@final
@dataclass(frozen=True)
class FixedDifference(Difference):
    """A mismatch at any position of the run."""

    def fixed(self, run: SavedRun) -> Mismatch | None:
        return self.mismatches[0]

    def in_run(self, run: SavedRun) -> Iterator[Mismatch | FoundArgument]:
        yield self.mismatches[0]


@final
@dataclass(frozen=True)
class ReachedField(Difference):
    """A field that depends on items read: an end reached by some ranks, or an epoch's length."""

    field: str = ""
    compare: Callable[[Any], Mismatch | None] = lambda present: None

    def in_run(self, run: SavedRun) -> Iterator[Mismatch | FoundArgument]:
        if self.undo is None:
            mismatch = self.compare(getattr(run.as_it_was(self.stage), self.field))
        else:
            is_in_first_epoch = run.items_read(self.stage) <= getattr(self.stage, self.field)
            mismatch = None if is_in_first_epoch else self.mismatches[0]
        if mismatch:
            yield mismatch


@final
@dataclass(frozen=True)
class ArgumentDifference(Difference):
    """An argument by position, which may differ for items not yet read."""

    path: str = ""
    argument: ByPosition = INPUTS
    saved: Timeline = ()
    present: Timeline = ()

    def in_run(self, run: SavedRun) -> Iterator[Mismatch | FoundArgument]:
        if self.saved == self.present and not run.lists_arguments:
            return
        found = self._argument(self.path, self._in_run(run))
        if run.lists_arguments:
            yield found
        elif not found.value.agrees:
            yield Mismatch(Rule.ARGUMENT, self.path, found.stage, change=found.value)

    def _in_run(self, run: SavedRun) -> ArgumentChange:
        changes = self.stage._run_changes
        reached = changes.followed_until(self.stage, self.saved, run.items_read(self.stage))
        change = ArgumentChange(self.argument, self.saved, self.present, reached)
        if change.is_fixed:
            return change
        edit = partial(changes.with_timeline, timeline=change.example)
        return replace(change, refused=run.why_not_built(self.stage, edit))


@final
@dataclass(frozen=True)
class InputsDifference(Difference):
    """Inputs that may join the inputs of the run, unless the run has seen the end of its inputs."""

    path: str = ""
    saved: int = 0
    refused: str | None = None

    def fixed(self, run: SavedRun) -> Mismatch | None:
        if self.undo is not None or self.refused is None or not self.mismatches:
            return super().fixed(run)
        return replace(self.mismatches[0], reason=self.refused)

    def in_run(self, run: SavedRun) -> Iterator[Mismatch | FoundArgument]:
        if not (self.mismatches or run.lists_arguments):
            return
        refused = self.refused or self._ended(run)
        if run.lists_arguments and self.undo is not None:
            before, after = (
                tuple((number, None) for number in range(count))
                for count in (self.saved, len(self.stage.inputs))
            )
            reached = UNBOUNDED if refused else self.saved
            yield self._argument(self.path, ArgumentChange(INPUTS, before, after, reached, refused))
        elif refused and self.mismatches:
            yield replace(self.mismatches[0], reason=refused)

    def _ended(self, run: SavedRun) -> str | None:
        """Why no inputs can follow the inputs of the run; None if inputs can follow."""
        if self.undo is None:
            return None
        end = self.undo(self.stage).length
        if run.items_read(self.stage) < (UNBOUNDED if end is None else end):
            return None
        return (
            "the end of the inputs that there were may have been read, so none can follow them in this epoch any "
            "more"
        )
