"""Functions, in a shadow, that make several items of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, final

from ..core.callables import StandIn
from ..core.expansion import inner_stage
from ..core.graph import without_threads
from ..core.origin import ItemOrigin, PartOrigin
from .shadow import shadow_of
from .traced import Each, Traced


@final
class ExpandsTraced(StandIn[Callable[..., Any]]):
    """Calls a function with the item, and returns the items of the result with their origins.

    Args:
      fn: the function.
      numbered: whether the items are always read from the first, so the items of a pipeline can be
        counted.
    """

    def __init__(self, fn: Callable[..., Any], *, numbered: bool = False) -> None:
        super().__init__(fn)
        self._numbered = numbered

    def __call__(self, traced: Traced[Any]) -> Any:
        made, whole = self.fn(traced.item), traced.origin
        stage = inner_stage(made)
        if stage is None:
            return (Traced(item, PartOrigin(whole, number)) for number, item in enumerate(made))
        trace = partial(_counted, whole, count()) if self._numbered else partial(_within, whole)
        return Each(shadow_of(without_threads(stage), paired=True), trace)


def _counted(whole: ItemOrigin, numbers: Iterator[int], traced: Traced[Any]) -> Traced[Any]:
    return Traced(traced.item, PartOrigin(whole, next(numbers)))


def _within(whole: ItemOrigin, traced: Traced[Any]) -> Traced[Any]:
    return Traced(traced.item, PartOrigin(whole, None, traced.origin))
