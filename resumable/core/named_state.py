"""The state of an iterator by the keys under which ranks save states together."""

from __future__ import annotations

from typing import Any

from ..errors import StateMismatch
from ..state.encoding import dumps_frozen
from ..state.named import KEY, OF_PARTITION, named, partition_key, rank_key, states_in
from ..state.value import State
from .fingerprint import holds_items_of_rank
from .merging import merge_owner_states
from .own_partitions import all_own_partitions, check_one_step
from .stage import Stage


def named_by(stage: Stage[Any], state: State) -> dict[str, bytes]:
    """``state`` of an iterator over ``stage``: for all ranks, each partition, or this rank."""
    own = _key_of_rank(stage)
    return named(state) if own is None else {own: dumps_frozen(state)}


def state_for(stage: Stage[Any] | None, state_dict: Any) -> State:
    """The state at which an iterator over ``stage`` resumes.

    Args:
      stage: the last stage; None if unknown. Then the steps of partitions are not compared.
      state_dict: saved by all ranks together, or by a rank; additional keys are allowed.

    Raises:
      StateMismatch: if ``state_dict`` has no states, or not the state of this rank, or has
        partitions of different pipelines or steps.
    """
    states = states_in(state_dict)
    if KEY in states:
        return states[KEY]
    if next(iter(states)).startswith(OF_PARTITION):
        own = set() if stage is None else set(map(partition_key, all_own_partitions(stage)))
        joined = merge_owner_states(
            [states[key] for key in states if key in own] or states.values()
        )
        if stage is not None:
            check_one_step(list(states.values()), stage)
        return joined
    rank = None if stage is None else _key_of_rank(stage)
    if rank is None or rank not in states:
        shown = ", ".join(sorted(states)[:3]) + ", ..." * (len(states) > 3)
        wanted = "one state for all ranks" if rank is None else rank
        raise StateMismatch(
            f"the state has {shown}, and this pipeline needs {wanted}: where a stage after shard or partition "
            "holds something of its rank, or takes more items on one rank than on another, each rank "
            "resumes from its own state, with as many ranks"
        )
    return states[rank]


def _key_of_rank(stage: Stage[Any]) -> str | None:
    """The key of this rank; None if its state is not of this rank alone."""
    return rank_key(*stage._rank_share) if holds_items_of_rank(stage) else None
