"""Say how large a cache of remote files must be for the order of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ..core.foreseen import PartUses
from ..core.stage import Stage, by_index, known_length
from ..file_cache.working_set import advice_on, working_sets

MOST_ITEMS: Final = 1 << 20
"""Items of an epoch that are looked at."""


def notes_on_caches(stage: Stage[Any]) -> list[str]:
    """A sentence for each cache that the sources of ``stage`` read through."""
    found = working_sets(_uses(stage))
    return [
        f"the order has up to {needed:,} bytes of remote files in use at a time, and the cache in {cache.path} has "
        f"room for {cache.max_bytes:,}" + advice_on(cache, needed)
        for cache, needed in found.items()
    ]


def _uses(stage: Stage[Any]) -> Iterator[PartUses]:
    if not stage.random_access:
        for one in stage.inputs:
            yield from _uses(one)
        return
    needs = by_index(stage).needs
    if needs is not None:
        indices = np.arange(int(min(known_length(stage), MOST_ITEMS)), dtype=np.int64)
        yield from needs(indices, indices)
