"""Count how often the function of a stage opens the same source."""

# A pipeline that a function returns is not part of the graph, so returning the same pipeline for
# every item is not refused: `flat_map(lambda item: shared)` delivers all of `shared` for each item.
# The repetition may be intended, so the sources are only counted.

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakKeyDictionary

from ..core.expansion import inner_stage
from ..core.graph import walk
from ..core.stage import Stage
from .hints import CALL_AGAIN


@final
@dataclass
class Opened:
    """The source opened most often by a function.

    Attributes:
      times: how often, in all epochs.
      label: name and arguments of the source.
    """

    times: int = 0
    label: str = ""


def counting(stage: Stage[Any], opened: Opened) -> Stage[Any]:
    """``stage``, with the sources opened by the function counted."""
    if not isinstance(stage, CALL_AGAIN):
        return stage
    function: Any = stage
    return dataclasses.replace(function, fn=_Counting(function.fn, opened))


@final
class _Counting:
    """The wrapped function, with opened sources counted."""

    def __init__(self, fn: Callable[[Any], Any], opened: Opened) -> None:
        self._fn = fn
        self._opened = opened
        # Weak keys: a source made for a single item never comes again, so need not be kept.
        self._counts: WeakKeyDictionary[Stage[Any], int] = WeakKeyDictionary()

    def __call__(self, item: Any) -> Any:
        made = self._fn(item)
        if (stage := inner_stage(made)) is not None:
            for source in {found for found, _ in walk(stage) if not found.inputs}:
                self._count(source)
        return made

    def _count(self, source: Stage[Any]) -> None:
        times = self._counts[source] = self._counts.get(source, 0) + 1
        if times > self._opened.times:
            self._opened.times, self._opened.label = times, str(source)
