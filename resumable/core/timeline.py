"""Arguments whose value may change at a position of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, TypeAlias

UNBOUNDED: Final = float("inf")
"""Number of items read where unknown, or where an epoch has ended."""

Timeline: TypeAlias = tuple[tuple[int, Any], ...]
"""Ascending positions from 0, each with the value that holds from the position on."""


@dataclass(frozen=True)
class ByPosition:
    """An argument with a `Timeline`, so that a run can be changed midway.

    A run's past is fixed by the values for items already read. So another timeline is accepted if
    both agree on these items; later items may differ.

    Args:
      argument: the name, as users write it.
      timeline: returns the timeline of the stage from fields of a fingerprint, maybe read from
        JSON; None if the fields are no timeline of this stage.
      shown: returns a value as users write it.
      unit: the unit of positions.
      another: returns another value than the given value, to try whether a stage may change; by
        default the same value.
    """

    argument: str
    timeline: Callable[[Mapping[str, Any]], Timeline | None] = lambda fields: None
    shown: Callable[[Any], str] = str
    unit: str = "item"
    another: Callable[[Any], Any] = lambda value: value

    def written(self, timeline: Timeline) -> str:
        """The argument as users write it, with the name."""
        return f"{self.argument}={self.written_value(timeline)}"

    def written_value(self, timeline: Timeline) -> str:
        """The value as users write it after the name."""
        (_, first), *later = timeline
        if not later:
            return self.shown(first)
        pairs = ", ".join(f"{position:_}: {self.shown(value)}" for position, value in timeline)
        return f"{{{pairs}}}"


class _Inputs(ByPosition):
    def written(self, timeline: Timeline) -> str:
        return f"{len(timeline)} input{'s' if len(timeline) > 1 else ''}"


INPUTS: Final = _Inputs("upstreams", unit="input")
"""The inputs of a stage; a timeline has the number of each input."""


def until(timeline: Timeline, position: float) -> Timeline:
    """The part of ``timeline`` before ``position``."""
    return tuple(pair for pair in timeline if pair[0] < position)


def changed_from(before: Timeline, after: Timeline, position: int) -> Timeline:
    """``before`` up to ``position``, and ``after`` from there on."""
    value = next(value for first, value in reversed(after) if first <= position)
    later = tuple(pair for pair in after if pair[0] > position)
    return (*until(before, position), (position, value), *later)


def first_difference(left: Timeline, right: Timeline) -> int:
    """The first position at which two different timelines differ."""
    pairs = zip_longest(left, right)
    differing = next(pair for pair in pairs if pair[0] != pair[1])
    return min(pair[0] for pair in differing if pair is not None)
