"""The changes allowed in a running mix: new weights, and further inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, final

from ..core.run_changes import RunChanges
from ..core.timeline import UNBOUNDED, ByPosition, Timeline
from ..order.weights import ChangingWeights, by_name, timeline_of


@final
class MixChanges(RunChanges):
    """Weights may change, and inputs join, unless turns without an item are left out."""

    def may_grow(self, stage: Any) -> bool:
        return bool(stage.stop != "all")

    def saved_argument(self, fields: Mapping[str, Any], inputs: int) -> ByPosition | None:
        if fields.get("stop") == "all":
            return None
        names = fields.get("names")
        if names is not None and not (isinstance(names, (list, tuple)) and len(names) == inputs):
            return None
        timeline = partial(timeline_of, count=inputs)
        return ChangingWeights("weights", timeline, partial(by_name, names), names=names)

    def with_timeline(self, stage: Any, timeline: Timeline) -> Any:
        return replace(stage, weights=dict(timeline))

    def followed_until(self, stage: Any, saved: Timeline, reached: float) -> float:
        if reached in (0, UNBOUNDED):
            return reached
        before = self.with_timeline(stage, saved)
        end = before.length
        if end is None or reached >= end:
            # The end at this turn may have been seen, as by a short batch.
            reached = min(reached, reached if end is None else end) + 1
        return _drawn_with(before, int(reached))

    def orders_as(self, stage: Any, other: Any, count: float) -> bool:
        if not stage.reshuffle:
            return True
        # The last round of the mix, and whether it is known, may depend on upstreams with changing
        # weights.
        until = count if count == UNBOUNDED else _drawn_with(other, int(count))
        ends = [min(until if mix.end is None else mix.end, until) for mix in (stage, other)]
        return bool(ends[0] == ends[1])


WEIGHTS_MAY_CHANGE: Final = MixChanges()


def _drawn_with(mix: Any, count: int) -> int:
    """Number of turns of ``mix`` that affect the order of the first ``count`` turns."""
    return int(mix.schedule().round_end(count - 1)) if mix.reshuffle and count else count
