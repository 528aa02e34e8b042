"""The counts of a run so far, as a value kept in a checkpoint, and the dict that describes the run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, Final, final

from .input_counts import InputCount, passes_over
from .process_counts import process_counts
from .wait_histogram import WaitHistogram

TOKENS: Final = "tokens/"
"""Prefix of the name of an input, in a name of a count."""
COUNTS: Final = ("items", "bytes_read", "requests", "worker_restarts", "cache_hits", "cache_misses")
SUMS: Final = 8
"""Number of sums of seconds in a checkpoint; only the first four are used."""


@final
@dataclass(frozen=True)
class RunCounters:
    """Counters of a run outside its state.

    Attributes:
      counts: ``items`` and the counts of the process, by name.
      wait_seconds: how long the caller was blocked in calls.
      loop_seconds: how long the caller was elsewhere since the first call, without time between
        processes.
      waits: durations of the calls.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    wait_seconds: float = 0.0
    loop_seconds: float = 0.0
    waits: WaitHistogram = field(default_factory=WaitHistogram)

    @property
    def wait_share(self) -> float | None:
        """The share of the time in which the caller was blocked; None if no time was measured."""
        seconds = self.wait_seconds + self.loop_seconds
        return self.wait_seconds / seconds if seconds > 0 else None

    def to_value(self) -> dict[str, Any]:
        """A value that can be saved, for `from_value`."""
        waited, looped = max(self.wait_seconds, 0.0), max(self.loop_seconds, 0.0)
        elapsed = waited + looped
        # Versions up to 0.3 read sums over a sample of the calls, from which the same share is
        # estimated.
        seconds = [elapsed, 1.0, waited, looped, 0.0, 0.0, 0.0, elapsed]
        return {"counts": dict(self.counts), "seconds": seconds, "waits": self.waits.to_value()}

    @classmethod
    def from_value(cls, value: Any) -> RunCounters | None:
        """The inverse of ``to_value``; None for a value that ``to_value`` cannot return."""
        if not isinstance(value, dict):
            return None
        counts, seconds = value.get("counts"), value.get("seconds")
        waits = WaitHistogram.from_value(value.get("waits"))
        if not isinstance(counts, dict) or not isinstance(seconds, list) or waits is None:
            return None
        if len(seconds) != SUMS or not all(map(_is_sum, seconds)):
            return None
        if not all(type(count) is int and count >= 0 for count in counts.values()):
            return None
        # A later version may count more.
        known = {
            name: count
            for name, count in counts.items()
            if name in COUNTS or name.startswith(TOKENS)
        }
        waited, looped = _wait_and_loop(*seconds[:4])
        return cls(known, waited, looped, waits)


def joined(counters: Iterable[RunCounters]) -> RunCounters:
    """The counters of several ranks, at least one, added."""
    every = list(counters)
    names = sorted({name for each in every for name in each.counts})
    counts = {name: sum(each.counts.get(name, 0) for each in every) for name in names}
    return RunCounters(
        counts,
        math.fsum(each.wait_seconds for each in every),
        math.fsum(each.loop_seconds for each in every),
        reduce(add, (each.waits for each in every)),
    )


def _wait_and_loop(
    elapsed: float, _calls: float, waited: float, looped: float
) -> tuple[float, float]:
    """``elapsed``, divided in proportion to the sampled times of the calls."""
    share = waited / (waited + looped) if waited + looped else 0.0
    return share * elapsed, elapsed - share * elapsed


def _is_sum(value: Any) -> bool:
    return type(value) is float and 0.0 <= value < math.inf


PERCENTILES: Final = (50, 95, 99)


def counts_since(before: Mapping[str, int], carried: Mapping[str, int]) -> dict[str, int]:
    """The counts of this process since ``before``, added to the ``carried`` counts."""
    now = process_counts.now()
    names = [*now, *(name for name in carried if name not in now)]
    return {
        name: carried.get(name, 0) + now.get(name, 0) - before.get(name, 0)
        for name in names
        if name != "items"
    }


def described(
    step: int, counters: RunCounters, inputs: Mapping[str, InputCount], skipped: Mapping[str, int]
) -> dict[str, Any]:
    """The dict of `PipelineIterator.stats`."""
    counts = dict(counters.counts)
    names = [name for name in counts if name.startswith(TOKENS)]
    tokens = {name.removeprefix(TOKENS): counts.pop(name) for name in names}
    stats: dict[str, Any] = {"steps": step}
    if "items" in counts:
        stats["items"] = counts.pop("items")
    share = counters.wait_share
    if share is not None:
        stats["wait_seconds"] = counters.wait_seconds
        stats["loop_seconds"] = counters.loop_seconds
        stats["wait_share"] = share
        for percent in PERCENTILES:
            seconds = counters.waits.percentile(percent)
            if seconds is not None:
                stats[f"wait_p{percent}"] = seconds
    stats["inputs"] = {name: one.items for name, one in inputs.items()}
    of_inputs = {"passes": passes_over(inputs), "tokens": tokens}
    stats |= {name: values for name, values in of_inputs.items() if values}
    return stats | {"skipped": dict(skipped)} | counts
