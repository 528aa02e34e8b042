"""The partitions owned by a rank, and whether states of partitions were saved at one step."""

# A finished rank may have fewer steps than other ranks. The state after the last item does not
# record the end of the partitions. So a partition with fewer steps is asked for one more item.

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from ..errors import StateMismatch
from ..state.partitions import PARTITIONS
from ..state.value import State
from .graph import walk, with_inputs, without_threads
from .identity import ITEMS, PARTS, RANK
from .resuming import compare
from .runnable import saved_position
from .stage import OwnsPartitions, Stage, own_partitions


def all_own_partitions(stage: Stage[Any]) -> set[int]:
    """The numbers of the partitions owned by this rank; empty if ``stage`` has no partitions."""
    return {number for found, _ in walk(stage) for number in own_partitions(found)}


def check_one_step(states: Sequence[State], stage: Stage[Any]) -> None:
    """Refuse ``states``, each of one partition, if a partition has fewer steps and has not ended.

    Only partitions owned by ``stage`` are checked, and no partitions below a stage that holds items
    of several partitions, or has several inputs.

    Raises:
      StateMismatch: naming a partition and both steps.
    """
    furthest = max(state["step"] for state in states)
    for state in states:
        if state["step"] == furthest:
            continue
        number = _number(state["pipeline"])
        only = None if number is None else _over_one(stage, number)
        if only is not None and has_more(only, state):
            raise StateMismatch(
                f"partition {number} was saved at step {state['step']}, and another one at step "
                f"{furthest}; are they of different checkpoints?"
            )


def _number(state: Any) -> int | None:
    """The number of the partition of ``state``; None if the partition is below several inputs."""
    while isinstance(state, dict) and PARTITIONS not in state:
        state = state.get("upstream")
    return state[PARTITIONS][0] if isinstance(state, dict) else None


def _over_one(stage: Stage[Any], number: int) -> Stage[Any] | None:
    """``stage`` over its own partition ``number``; None if impossible."""
    if isinstance(stage, OwnsPartitions) and stage.own_partitions:
        return stage.over_partition(number) if number in stage.own_partitions else None
    if len(stage.inputs) != 1 or not (stage.alone or _holds_nothing(stage)):
        return None
    (upstream,) = stage.inputs
    only = _over_one(upstream, number)
    return only and with_inputs(stage, (only,))


def _holds_nothing(stage: Stage[Any]) -> bool:
    """Whether ``stage``, such as `batch`, keeps nothing of partitions between two items."""
    return not stage.depends_on & (ITEMS | PARTS | RANK)


def has_more(stage: Stage[Any], state: State) -> bool:
    """Whether ``stage`` has an item after ``state``, a state of its `PipelineIterator`.

    Raises:
      StateMismatch: if ``state`` is of another pipeline.
    """
    stage = without_threads(stage)
    saved = saved_position(stage, state)
    if found := compare(stage, saved):
        raise StateMismatch(f"the state belongs to another pipeline: {found[0]}", stage)
    with closing(stage.start(saved.epoch)) as root:
        root.set_state(saved.positions)
        return root.skip(saved.ahead + 1) > saved.ahead
