"""Arguments whose value may change at a position of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, TypeAlias

UNBOUNDED: Final = float("inf")
"""The number of items read where that is not known, or where an epoch has ended."""

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
        """What users write after its name."""
        (_, first), *later = timeline
        if not later:
            return self.shown(first)
        pairs = ", ".join(f"{position:_}: {self.shown(value)}" for position, value in timeline)
        return f"{{{pairs}}}"


class _Inputs(ByPosition):
    def written(self, timeline: Timeline) -> str:
        return f"{len(timeline)} input{'s' if len(timeline) > 1 else ''}"


INPUTS: Final = _Inputs("upstreams", unit="input")
"""The inputs of a stage; a timeline has the number of each."""


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
