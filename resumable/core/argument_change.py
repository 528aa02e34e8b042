"""How an argument that a run was saved with may change where the run is resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from .timeline import INPUTS, UNBOUNDED, ByPosition, Timeline, changed_from, until

AS_SAVED: Final = "as saved"
AS_HERE: Final = "as here"


@dataclass(frozen=True)
class ArgumentChange:
    """An argument by position, as a run was saved with it and as a pipeline that resumes the run has it.

    Args:
      argument: that may change.
      saved: its value in the run.
      present: its value in the pipeline.
      reached: the position before which the two must agree; `UNBOUNDED` if they must agree everywhere.
      refused: why no pipeline can be built that changes at ``reached``; None if one can.
    """

    argument: ByPosition
    saved: Timeline
    present: Timeline
    reached: float
    refused: str | None = None

    def furthest(self, others: Sequence[ArgumentChange]) -> ArgumentChange:
        """The same where all ``others``, of several ranks, can resume with it."""
        return max([self, *others], key=lambda one: one.reached)

    @property
    def agrees(self) -> bool:
        """Whether the run can be resumed with what the pipeline has."""
        return until(self.saved, self.reached) == until(self.present, self.reached)

    @property
    def is_fixed(self) -> bool:
        """Whether the argument cannot be changed anywhere."""
        return self.reached == UNBOUNDED or self.refused is not None

    @property
    def to_write(self) -> str | None:
        """The argument to write, so that the run is resumed with what the pipeline has now; None if it cannot."""
        if self.agrees:
            return self.argument.written(self.present)
        return None if self.is_fixed else self.argument.written(self.example)

    @property
    def example(self) -> Timeline:
        """A timeline that the run can resume with: what the pipeline has from ``reached`` on, or another value."""
        position = int(self.reached)
        if not self.agrees:
            return changed_from(self.saved, self.present, position)
        last = self.saved[-1][1]
        return (*until(self.saved, position), (position, self.argument.another(last)))

    @property
    def may_change(self) -> str:
        """From which position on it may change, in words."""
        if self.is_fixed:
            return f"nowhere: {self.why_fixed}"
        if self.argument is INPUTS:
            return f"at its end: further inputs may follow these {len(self.saved)}"
        return f"from {self.argument.unit} {int(self.reached):_} on"

    @property
    def why_fixed(self) -> str:
        """Why nothing can be changed where `is_fixed`."""
        if self.refused is not None:
            return self.refused
        return f"a later stage may have read any of its {self.argument.unit}s, in this epoch or an earlier one"


@dataclass(frozen=True)
class EpochsChange(ArgumentChange):
    """Pipelines by epoch, as a run was saved with them and as a pipeline that resumes the run has them.

    Args:
      differs_from: the first epoch in which they differ among those that were begun; None if they agree.
      repeat: what counts the epochs; None if the loop does.
      where: before which stages a `by_epoch` may stand; None if the loop counts.
      repeats_within: whether a pipeline repeats something itself, so that a `by_epoch` before that counts
        other epochs.
    """

    differs_from: int | None = None
    repeat: str | None = None
    where: str | None = None
    repeats_within: bool = False

    def furthest(self, others: Sequence[ArgumentChange]) -> ArgumentChange:
        # One that is not as far may belong to a rank that resumes with something else.
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
    def to_write(self) -> str | None:
        if self.agrees:
            return self.argument.written(self.present)
        return None if self.is_fixed else f"{self.argument.written(self.example)}{self.place}"

    @property
    def example(self) -> Timeline:
        """The `by_epoch` that keeps the saved pipelines in the epochs that were begun."""
        saved = tuple((first, AS_SAVED) for first, _ in self.saved)
        present = tuple((first, AS_HERE) for first, _ in self.present)
        return changed_from(saved, present, int(self.reached))

    @property
    def is_not_there(self) -> bool:
        """Whether there is no `by_epoch` yet before the repeat that counts."""
        return self.repeat is not None and len(self.saved) == len(self.present) == 1

    @property
    def place(self) -> str:
        """Where to write it, if that is not where a `by_epoch` stands."""
        is_elsewhere = self.is_not_there or self.repeats_within
        return f" {self.where}" if is_elsewhere and self.where else ""
