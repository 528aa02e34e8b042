"""Say how large a cache of remote files must be for the order of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from ..core.foreseen import PartUses
from ..core.stage import Stage, by_index, known_length
from ..file_cache.cache import FileCache
from ..file_cache.working_set import advice_on, working_sets

MOST_ITEMS: Final = 1 << 20
"""About how many source items of an epoch are considered."""


def needed_of_caches(stage: Stage[Any]) -> dict[FileCache, int]:
    """For each cache of the sources: how many bytes the order of ``stage`` uses at a time."""
    return working_sets(_uses(stage))


def notes_on_caches(needed: Mapping[FileCache, int]) -> list[str]:
    """A sentence for each cache, on the bytes ``needed`` at a time."""
    return [
        f"the order has up to {most:,} bytes of remote files in use at a time, and the cache in {cache.path} has "
        f"room for {cache.max_bytes:,}"
        + (f"; {advice}" if (advice := advice_on(cache, most)) else "")
        for cache, most in needed.items()
    ]


def advice_on_source(source: Stage[Any], needed: Mapping[FileCache, int]) -> str:
    """Advice if the cache of ``source`` has no room for the bytes ``needed``; else empty."""
    caches = dict.fromkeys(uses.cache for uses in _uses(source))
    advice = next(filter(None, (advice_on(cache, needed.get(cache, 0)) for cache in caches)), "")
    return f"Its cache has no room for what the order uses at a time; {advice}." if advice else ""


def _uses(stage: Stage[Any]) -> Iterator[PartUses]:
    if not stage.random_access:
        for one in stage.inputs:
            yield from _uses(one)
        return
    indexed = by_index(stage)
    if indexed.needs is not None:
        count = int(min(known_length(stage), indexed.items_within(MOST_ITEMS)))
        indices = np.arange(count, dtype=np.int64)
        yield from indexed.needs(indices, indices)
