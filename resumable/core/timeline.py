"""Arguments that say from which position on they hold, and how far two of them must agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, TypeAlias

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
    """

    argument: str
    timeline: Callable[[Mapping[str, Any]], Timeline | None]
    shown: Callable[[Any], str] = str
    unit: str = "item"

    def written(self, timeline: Timeline) -> str:
        """The argument as users write it."""
        (_, first), *later = timeline
        if not later:
            return f"{self.argument}={self.shown(first)}"
        pairs = ", ".join(f"{position:_}: {self.shown(value)}" for position, value in timeline)
        return f"{self.argument}={{{pairs}}}"

    def disagreement(self, saved: Timeline, present: Timeline, reached: float) -> str | None:
        """Why ``present`` cannot go on where a run with ``saved`` had read ``reached`` items; None if it can."""
        if until(saved, reached) == until(present, reached):
            return None
        where = first_difference(saved, present)
        wrong = f"saved {self.written(saved)}, this pipeline has {self.written(present)}"
        if reached == UNBOUNDED:
            return (
                f"{wrong}, which differs from {self.unit} {where} on; a later stage may have read any of "
                f"its {self.unit}s, in this epoch or an earlier one, so it cannot be changed here"
            )
        changed = changed_from(saved, present, int(reached))
        return (
            f"{wrong}, which differs from {self.unit} {where} on, and {self.unit}s before {reached:_} were "
            f"read; to change it from there on, write {self.written(changed)}"
        )


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
