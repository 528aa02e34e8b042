"""Count how often the function of a stage opens the same source."""

# A pipeline that a function returns is not part of the graph, so returning the same pipeline for
# every item is not refused: `flat_map(lambda item: shared)` delivers all of `shared` for each item.
# The repetition may be intended, so the sources are only counted.

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, final
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
    return dataclasses.replace(function, fn=_Counting(function.fn, note))


@final
class _Counting:
    """The wrapped function, with opened sources counted."""

    def __init__(self, fn: Callable[[Any], Any], note: Callable[[Stage[Any], int], None]) -> None:
        self._fn = fn
        self._note = note
        # Weak keys: a source made for a single item never comes again, so need not be kept.
        self._counts: WeakKeyDictionary[Stage[Any], int] = WeakKeyDictionary()

    def __call__(self, item: Any) -> Any:
        made = self._fn(item)
        if (stage := inner_stage(made)) is not None:
            for source in {found for found, _ in walk(stage) if not found.inputs}:
                self._counts[source] = self._counts.get(source, 0) + 1
                self._note(source, self._counts[source])
        return made
