"""How an argument of a saved run may change in a pipeline that resumes the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from .timeline import INPUTS, UNBOUNDED, ByPosition, Timeline, changed_from, until

AS_SAVED: Final = "as saved"
AS_HERE: Final = "as here"


@dataclass(frozen=True)
class ArgumentChange:
    """An argument by position, with its saved and its present value.

    Args:
      argument: the argument.
      saved: the value in the run.
      present: the value in the pipeline that resumes the run.
      reached: position before which both must agree; `UNBOUNDED` for everywhere.
      refused: why no pipeline that changes at ``reached`` can be built; None if possible.
    """

    argument: ByPosition
    saved: Timeline
    present: Timeline
    reached: float
    refused: str | None = None

    def furthest(self, others: Sequence[ArgumentChange]) -> ArgumentChange:
        """The change with the largest ``reached`` of this and ``others``, valid for all ranks."""
        return max([self, *others], key=lambda one: one.reached)

    @property
    def agrees(self) -> bool:
        """Whether the run can be resumed with the present value."""
        return until(self.saved, self.reached) == until(self.present, self.reached)

    @property
    def is_fixed(self) -> bool:
        """Whether the argument cannot be changed anywhere."""
        return self.reached == UNBOUNDED or self.refused is not None

    @property
    def to_write(self) -> str | None:
        """The argument to write for a resume with the present value; None if impossible."""
        if self.agrees:
            return self.argument.written(self.present)
        return None if self.is_fixed else f"{self.argument.written(self.example)}{self.place}"

    @property
    def place(self) -> str:
        """Words for the place where to write the argument, if it may be another place."""
        return ""

    @property
    def example(self) -> Timeline:
        """A timeline to resume with: from ``reached`` on, the present value or another value."""
        position = int(self.reached)
        if not self.agrees:
            return changed_from(self.saved, self.present, position)
        last = self.saved[-1][1]
        return (*until(self.saved, position), (position, self.argument.another(last)))

    @property
    def may_change(self) -> str:
        """In words, the position from which the argument may change."""
        if self.is_fixed:
            return f"nowhere: {self.why_fixed}"
        if self.argument is INPUTS:
            return f"at its end: further inputs may follow these {len(self.saved)}"
        return f"from {self.argument.unit} {int(self.reached):_} on"

    @property
    def why_fixed(self) -> str:
        """The reason for `is_fixed`."""
        return (
            self.refused
            or f"a later stage may have read any of its {self.argument.unit}s, in this epoch or an earlier one"
        )


@dataclass(frozen=True)
class EpochsChange(ArgumentChange):
    """Pipelines by epoch, saved and present.

    Args:
      differs_from: the first begun epoch with a difference; None if all begun epochs agree.
      repeat: the stage that counts the epochs; None for the loop.
      where: the stages before which a `by_epoch` may stand; None for the loop.
      repeats_within: whether a pipeline contains a repeat, so that a `by_epoch` before that repeat
        counts other epochs.
    """

    differs_from: int | None = None
    repeat: str | None = None
    where: str | None = None
    repeats_within: bool = False

    def furthest(self, others: Sequence[ArgumentChange]) -> ArgumentChange:
        # A change with a smaller `reached` may belong to a rank resuming with another pipeline.
        wrong = [one for one in [self, *others] if not one.agrees]
        furthest = super().furthest(others)
        return replace(wrong[0], reached=furthest.reached) if wrong else furthest

    @property
    def agrees(self) -> bool:
        return self.differs_from is None

    @property
    def why_fixed(self) -> str:
        return self.refused or "a later stage may have begun any of its epochs"

    @property
    def may_change(self) -> str:
        if self.is_fixed:
            return super().may_change
        kept = [(first, AS_SAVED) for first, _ in self.saved if first < self.reached]
        if self.is_not_there:
            kept = [(0, "<what is there>")]
        example = self.argument.written((*kept, (int(self.reached), "new")))
        return f"{super().may_change}, as {example}{self.place}"

    @property
    def example(self) -> Timeline:
        """A `by_epoch` of the saved pipelines in begun epochs, then of the present pipelines."""
        saved = tuple((first, AS_SAVED) for first, _ in self.saved)
        present = tuple((first, AS_HERE) for first, _ in self.present)
        return changed_from(saved, present, int(self.reached))

    @property
    def is_not_there(self) -> bool:
        """Whether no `by_epoch` precedes the counting repeat yet."""
        return self.repeat is not None and len(self.saved) == len(self.present) == 1

    @property
    def place(self) -> str:
        """Where to write the `by_epoch`, unless an existing `by_epoch` shows the place."""
        is_elsewhere = self.is_not_there or self.repeats_within
        return f" {self.where}" if is_elsewhere and self.where else ""
