"""Refuse states of partitions that were saved at different steps."""

# A rank that has ended may have fewer steps than others. The state after its last item does not say
# that its partitions have ended. So a partition that is behind is asked for one more item.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import resumable as rs
from resumable.core.graph import walk, without_threads
from resumable.core.stage import Stage
from resumable.stages.partition import Partition, dealt
from resumable.state.merging import PARTITIONS
from resumable.state.value import State

__all__ = ["check_one_step"]


def check_one_step(states: Sequence[State], pipeline: rs.Pipeline[Any] | None) -> None:
    """Refuse ``states``, each of one partition, if some are behind others and have not ended.

    Only the partitions that ``pipeline`` owns are checked, and none if it has several inputs.

    Raises:
      StateMismatch: naming a partition and both steps.
    """
    if pipeline is None:
        return
    furthest = max(state["step"] for state in states)
    for state in states:
        if state["step"] == furthest:
            continue
        number = _number(state["pipeline"])
        alone = _alone(pipeline.stage, number)
        if alone is None:
            continue
        with rs.Pipeline(without_threads(alone)).resume(state) as iterator:
            if iterator.skip(1):
                raise rs.StateMismatch(
                    f"partition {number} was saved at step {state['step']}, and another one at step "
                    f"{furthest}; are they of different checkpoints?"
                )


def _number(state: Any) -> int | None:
    """The number of the partition whose state this is; None if it is below several inputs."""
    while isinstance(state, dict) and PARTITIONS not in state:
        state = state.get("upstream")
    return state[PARTITIONS][0] if isinstance(state, dict) else None


def _alone(stage: Stage[Any], number: int | None) -> Stage[Any] | None:
    """``stage`` over one of the partitions that it owns; None if there is no such thing."""
    owned = [found.numbers for found, _ in walk(stage) if isinstance(found, Partition)]
    if number is None or len(owned) != 1 or number not in owned[0]:
        return None
    try:
        return dealt(stage, owned[0].index(number), len(owned[0]), "keep")
    except rs.InvalidArgument:  # a stage after the partitions holds items of all of them
        return None
