"""Functions that make several items of one, in a shadow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

from ..core.callables import StandIn
from ..core.expansion import inner_stage
from ..core.graph import without_threads
from ..core.origin import ItemOrigin, PartOrigin
from .shadow import shadow_of
from .traced import Each, Traced


@final
class ExpandsTraced(StandIn[Callable[..., Any]]):
    """Calls a function with the item, and returns the items of its result with their origins."""

    def __call__(self, traced: Traced[Any]) -> Any:
        made, whole = self.fn(traced.item), traced.origin
        stage = inner_stage(made)
        if stage is not None:
            shadow = shadow_of(without_threads(stage), paired=True)
            return Each(shadow, partial(_within, whole))
        return (Traced(item, PartOrigin(whole, number)) for number, item in enumerate(made))


def _within(whole: ItemOrigin, traced: Traced[Any]) -> Traced[Any]:
    return Traced(traced.item, PartOrigin(whole, None, traced.origin))
