"""Arguments that say from which position on they hold, and how far two of them must agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, TypeAlias

CANNOT_BE_CHANGED: Final = "it cannot be changed here"
FROM_THERE_ON: Final = "to change it from there on"
FIXED_FOR_A_RUN: Final = "is fixed for a run"

Timeline: TypeAlias = tuple[tuple[int, Any], ...]
"""What holds from which position on: ascending positions from 0, each with a value."""


@dataclass(frozen=True)
class ByPosition:
    """An argument that holds a `Timeline`, so that a run can be changed while it goes on.

    A run's past is what its arguments say of the items that it has read. So another value is accepted if
    it says the same of those, whatever it says of later ones.

    Args:
      argument: as users write it.
      timeline: that of the stage, from fields in a fingerprint, which may have been read from JSON.
        None if they are no timeline of this stage.
      shown: a value as users write it.
      unit: what the positions count.
      another: another value than the given one, to try whether a stage may change; by default the same.
    """

    argument: str
    timeline: Callable[[Mapping[str, Any]], Timeline | None] = lambda fields: None
    shown: Callable[[Any], str] = str
    unit: str = "item"
    another: Callable[[Any], Any] = lambda value: value

    def written(self, timeline: Timeline) -> str:
        """The argument as users write it, with its name."""
        return f"{self.argument}={self.written_value(timeline)}"

    def written_value(self, timeline: Timeline) -> str:
        """What users write behind its name."""
        (_, first), *later = timeline
        if not later:
            return self.shown(first)
        pairs = ", ".join(f"{position:_}: {self.shown(value)}" for position, value in timeline)
        return f"{{{pairs}}}"


@dataclass(frozen=True)
class Continuation:
    """An argument by position, as a run was saved with it and as a pipeline that is to go on has it.

    Args:
      argument: that may change.
      saved: its value in the run.
      present: its value in the pipeline.
      reached: the position before which the two must agree, as it was read; `UNBOUNDED` if they must
        agree everywhere.
      refused: why no pipeline can be built that changes at ``reached``; None if one can.
    """

    argument: ByPosition
    saved: Timeline
    present: Timeline
    reached: float
    refused: str | None = None

    def furthest(self, others: Sequence[Continuation]) -> Continuation:
        """The same where all ``others``, of several ranks, can go on with it."""
        return max([self, *others], key=lambda one: one.reached)

    @property
    def agrees(self) -> bool:
        """Whether the pipeline can go on with what it has."""
        return until(self.saved, self.reached) == until(self.present, self.reached)

    @property
    def is_fixed(self) -> bool:
        """Whether the argument cannot be changed anywhere."""
        return self.reached == UNBOUNDED or self.refused is not None

    @property
    def to_write(self) -> str | None:
        """The argument to write, so that the pipeline goes on with what it has now; None if it cannot."""
        if self.agrees:
            return self.argument.written(self.present)
        if self.is_fixed:
            return None
        return self.argument.written(self.example)

    @property
    def example(self) -> Timeline:
        """A timeline with which the run can go on: what the pipeline has from ``reached`` on, or another value."""
        position = int(self.reached)
        if not self.agrees:
            return changed_from(self.saved, self.present, position)
        past = until(self.saved, position)
        last = self.saved[-1][1]
        return (*past, (position, self.argument.another(last)))

    @property
    def may_change(self) -> str:
        """From where on it may change."""
        if self.is_fixed:
            return f"nowhere: {self.why_fixed}"
        return f"from {self.argument.unit} {int(self.reached):_} on"

    @property
    def why_fixed(self) -> str:
        """Why nothing can be changed where `is_fixed`."""
        if self.refused is not None:
            return self.refused
        unit = self.argument.unit
        return f"a later stage may have read any of its {unit}s, in this epoch or an earlier one"

    @property
    def disagreement(self) -> str | None:
        """Why the pipeline cannot go on with what it has; None if it can."""
        if self.agrees:
            return None
        argument, unit = self.argument, self.argument.unit
        wrong = (
            f"saved {argument.written(self.saved)}, this pipeline has {argument.written(self.present)}, "
            f"which differs from {unit} {first_difference(self.saved, self.present)} on"
        )
        if self.is_fixed:
            if self.refused is not None:
                return f"{wrong}; {CANNOT_BE_CHANGED}: {self.refused}"
            return f"{wrong}; {self.why_fixed}, so {CANNOT_BE_CHANGED}"
        return (
            f"{wrong}, and {unit}s before {self.reached:_} were read; {FROM_THERE_ON}, write "
            f"{self.to_write}"
        )


class Inputs(ByPosition):
    """The inputs of a stage; a timeline has the number of each."""

    def written(self, timeline: Timeline) -> str:
        return f"{len(timeline)} input{'s' if len(timeline) > 1 else ''}"


INPUTS: Final = Inputs("upstreams", unit="input")


@dataclass(frozen=True)
class InputsContinuation(Continuation):
    """Inputs as a run was saved with them and as a pipeline that is to go on has them."""

    @classmethod
    def of(
        cls, saved: Sequence[Any], present: Sequence[Any], problem: str | None
    ) -> InputsContinuation:
        """How the inputs ``saved`` go on with ``present``, which begin with them.

        ``problem`` is why none can follow those that were saved; None if they can.
        """
        before, after = (
            tuple((number, None) for number in range(len(each))) for each in (saved, present)
        )
        return cls(INPUTS, before, after, UNBOUNDED if problem else len(saved), problem)

    @property
    def may_change(self) -> str:
        if self.is_fixed:
            return super().may_change
        return f"at its end: further inputs may follow these {len(self.saved)}"

    @property
    def disagreement(self) -> str | None:
        if self.agrees:
            return None
        return f"saved with {len(self.saved)} upstreams, this pipeline has {len(self.present)}; {self.refused}"


UNBOUNDED: Final = float("inf")
"""The number of items read where that is not known, or where an epoch has ended."""


def until(timeline: Timeline, position: float) -> Timeline:
    """What ``timeline`` says of the items before ``position``."""
    return tuple(pair for pair in timeline if pair[0] < position)


def changed_from(before: Timeline, after: Timeline, position: int) -> Timeline:
    """``before`` as far as ``position``, and from there on ``after``."""
    value = next(value for first, value in reversed(after) if first <= position)
    later = tuple(pair for pair in after if pair[0] > position)
    return (*until(before, position), (position, value), *later)


def first_difference(left: Timeline, right: Timeline) -> int:
    """The first position from which on two timelines, which differ, say different things."""
    pairs = zip_longest(left, right)
    differing = next(pair for pair in pairs if pair[0] != pair[1])
    return min(pair[0] for pair in differing if pair is not None)
