"""The dict that says how a run is doing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .process_counts import process_counts
from .run_counters import RunCounters

PERCENTILES: Final = (50, 95, 99)


def counts_since(before: Mapping[str, int], carried: Mapping[str, int]) -> dict[str, int]:
    """What this process has counted since ``before``, added to what was ``carried`` over."""
    now = process_counts.now()
    names = [*now, *(name for name in carried if name not in now)]
    return {
        name: carried.get(name, 0) + now.get(name, 0) - before.get(name, 0)
        for name in names
        if name != "items"
    }


def described(
    step: int, counters: RunCounters, inputs: Mapping[str, int], skipped: Mapping[str, int]
) -> dict[str, Any]:
    """The dict of `PipelineIterator.stats`."""
    counts = dict(counters.counts)
    stats: dict[str, Any] = {"steps": step, "items": counts.pop("items")}
    share = counters.wait_share
    if share is not None:
        stats["wait_seconds"] = counters.wait_seconds
        stats["loop_seconds"] = counters.loop_seconds
        stats["wait_share"] = share
        for percent in PERCENTILES:
            seconds = counters.waits.percentile(percent)
            if seconds is not None:
                stats[f"wait_p{percent}"] = seconds
    return stats | {"inputs": dict(inputs), "skipped": dict(skipped)} | counts
