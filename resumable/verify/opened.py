"""Count how often the function of a stage opens the same source."""

# A pipeline that a function returns is not part of the graph, so returning the same pipeline for
# every item is not refused: `flat_map(lambda item: shared)` delivers all of `shared` for each item.
# The repetition may be intended, so the sources are only counted.

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ..core.expansion import inner_stage
from ..core.graph import walk
from ..core.stage import Stage
from .hints import CALL_AGAIN


def counting(stage: Stage[Any], note: Callable[[Stage[Any], int], None]) -> Stage[Any]:
    """``stage``, with a call of ``note`` for each source opened by the function: source, times so far."""
    if not isinstance(stage, CALL_AGAIN):
        return stage
    function: Any = stage
    # Weak keys: a source made for a single item never comes again, so need not be kept.
    counts: WeakKeyDictionary[Stage[Any], int] = WeakKeyDictionary()

    def expand(item: Any) -> Any:
        made = function.fn(item)
        if (inner := inner_stage(made)) is not None:
            for source in {found for found, _ in walk(inner) if not found.inputs}:
                counts[source] = counts.get(source, 0) + 1
                note(source, counts[source])
        return made

    return dataclasses.replace(function, fn=expand)
