"""What a run has counted by now, as a value that a checkpoint keeps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final

from .call_sums import CallSums, added
from .wait_histogram import WaitHistogram

TOKENS: Final = "tokens/"
"""Before the name of an input, in a name of a count."""
COUNTS: Final = ("items", "bytes_read", "requests", "worker_restarts", "cache_hits", "cache_misses")


@final
@dataclass(frozen=True)
class RunCounters:
    """Counters of a run that are in no state.

    Attributes:
      counts: ``items`` and the counts of the process, by name.
      elapsed: seconds since the first call, without the time between two processes.
      sums: of the calls that were timed.
      waits: how long these waited.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    elapsed: float = 0.0
    sums: CallSums = field(default_factory=CallSums)
    waits: WaitHistogram = field(default_factory=WaitHistogram)

    @property
    def wait_share(self) -> float | None:
        """The part of the time in which the caller was blocked; None if no time was taken."""
        return self.sums.wait_share if self.elapsed > 0 else None

    def to_value(self) -> dict[str, Any]:
        """A value that can be saved, for `from_value`."""
        # What timing costs is taken off, so that a sum may lie a little below 0.
        seconds = [max(float(value), 0.0) for value in (self.elapsed, *self.sums)]
        return {"counts": dict(self.counts), "seconds": seconds, "waits": self.waits.to_value()}

    @classmethod
    def from_value(cls, value: Any) -> RunCounters | None:
        """What ``to_value`` was called on; None for what it cannot have returned."""
        if not isinstance(value, dict):
            return None
        counts, seconds = value.get("counts"), value.get("seconds")
        waits = WaitHistogram.from_value(value.get("waits"))
        if not isinstance(counts, dict) or not isinstance(seconds, list) or waits is None:
            return None
        if len(seconds) != 1 + len(CallSums._fields) or not all(map(_is_sum, seconds)):
            return None
        if not all(type(count) is int and count >= 0 for count in counts.values()):
            return None
        # A later version may count more.
        known = {
            name: count
            for name, count in counts.items()
            if name in COUNTS or name.startswith(TOKENS)
        }
        return cls(known, seconds[0], CallSums(*seconds[1:]), waits)


def joined(counters: Iterable[RunCounters]) -> RunCounters:
    """The counters of several ranks, at least one, added."""
    every = list(counters)
    names = sorted({name for each in every for name in each.counts})
    waits = WaitHistogram()
    for each in every:
        waits.merge(each.waits)
    counts = {name: sum(each.counts.get(name, 0) for each in every) for name in names}
    elapsed = math.fsum(each.elapsed for each in every)
    return RunCounters(counts, elapsed, added(each.sums for each in every), waits)


def _is_sum(value: Any) -> bool:
    return type(value) is float and 0.0 <= value < math.inf
