"""The dict that describes how a run is doing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .input_counts import InputCount, passes_over
from .process_counts import process_counts
from .run_counters import TOKENS, RunCounters

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
