"""States of ranks that differ, saved together: a key for each partition or rank, or one state of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch.distributed as dist

import resumable as rs
from resumable.core.named_state import named_by, state_for
from resumable.state.encoding import dumps_frozen
from resumable.core.merging import merge_owner_states
from resumable.state.named import named

from .accelerate_guard import keeps_rank_state
from .cursor import KEY
from .stateful import Stateful, as_stateful, pipeline_of

__all__ = ["JoinedState", "PartitionedState", "gather_state"]

T = TypeVar("T")


class PartitionedState:
    """The state of a loader with a key for each partition, for `torch.distributed.checkpoint`.

    Call ``dcp.save({"input": PartitionedState(loader)}, ...)`` on some ranks and ``dcp.load`` on
    any other number. Each rank saves its own partitions and loads those that it then owns. Ranks
    with the same partitions, such as a tensor-parallel group, save them once.

    If the pipeline has no partitions, there is the one key of the loader; or that of the rank, such as
    ``rank/00003-of-00064``, if a stage after `shard` holds something of it. Then as many ranks go on.

    Args:
      loader: what has the state: a `ResumableDataLoader`, a `PipelineDataset`, or an iterator of a pipeline.

    Raises:
      InvalidType: if ``loader`` is none of these.
    """

    def __init__(self, loader: Stateful | rs.PipelineIterator[Any]) -> None:
        self._loader = as_stateful(loader)

    @property
    def pipeline(self) -> rs.Pipeline[Any] | None:
        """The pipeline whose state it is, if that is known."""
        return pipeline_of(self._loader)

    @keeps_rank_state
    def state_dict(self) -> dict[str, bytes]:
        """A serialised state for each partition of this rank, under ``partition/00007`` and so on, or for all.

        Raises:
          ExternalStateError: if it is registered with Accelerate, which would keep only the
            partitions of rank 0.
        """
        state = rs.loads(self._loader.state_dict()[KEY])
        keyed, pipeline = named(state), self.pipeline
        if KEY in keyed and pipeline is not None and pipeline.stage._deal.ranks > 1:
            return named_by(pipeline.stage, state)
        return keyed

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the loader continue at ``state_dict``, which may have more partitions than it needs.

        Raises:
          StateMismatch: if a partition that this rank owns is missing, or the partitions are not of
            one step of one pipeline. Only a rank that has ended may be some steps behind; this is
            checked where no stage upon the partitions has several inputs.
        """
        pipeline = pipeline_of(self._loader)
        state = state_for(None if pipeline is None else pipeline.stage, state_dict)
        self._loader.load_state_dict({KEY: dumps_frozen(state)})


class JoinedState:
    """The state of all ranks that own partitions, for savers of rank 0's, such as Accelerate.

    Call ``accelerator.register_for_checkpointing(JoinedState(loader))``. `state_dict` is
    `gather_state`, so every rank must call it after the same step, as Accelerate does in
    ``save_state``. The state can be loaded on any number of ranks.

    Args:
      loader: what has the state: a `ResumableDataLoader`, a `PipelineDataset`, or an iterator of a pipeline.
      group: the ranks; by default all. Without `torch.distributed` there is one rank.

    Raises:
      InvalidType: if ``loader`` is none of these.
    """

    def __init__(
        self,
        loader: Stateful | rs.PipelineIterator[Any],
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self._loader = as_stateful(loader)
        self._group = group

    def state_dict(self) -> dict[str, bytes]:
        """The joined state of all ranks, on every rank.

        Raises:
          StateMismatch: if the states cannot be joined, on every rank.
        """
        return gather_state(self._loader, self._group)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the loader continue at ``state_dict``.

        Raises:
          StateMismatch: if it belongs to another pipeline; nothing changes then.
        """
        self._loader.load_state_dict(state_dict)


def gather_state(
    loader: Stateful | rs.PipelineIterator[Any], group: dist.ProcessGroup | None = None
) -> dict[str, bytes]:
    """The joined state of all ranks, on every rank, such as for ``torch.save`` on rank 0.

    Every rank of the group must call it, after the same step. ``load_state_dict`` of a loader takes it
    with any number of ranks. An iterator has no such method; use that of `JoinedState`.

    Args:
      loader: what has the state of this rank: a `ResumableDataLoader`, a `PipelineDataset`, or an iterator
        of a pipeline.
      group: the ranks; by default all. Without `torch.distributed` there is one rank.

    Raises:
      StateMismatch: if the states cannot be joined, on every rank.
      InvalidType: if ``loader`` has no state.
    """
    return gathered(as_stateful(loader).state_dict(), group)


def gathered(state_dict: dict[str, bytes], group: Any = None) -> dict[str, bytes]:
    """The joined state of all ranks, of which this one has ``state_dict``."""
    if not (dist.is_available() and dist.is_initialized()):
        return state_dict
    states = of_all_ranks(state_dict[KEY], group)
    return {KEY: dumps_frozen(merge_owner_states(map(rs.loads, states)))}


def of_all_ranks(value: T, group: Any = None) -> list[T]:
    """The value of each rank, on every rank; without `torch.distributed` there is one."""
    if not (dist.is_available() and dist.is_initialized()):
        return [value]
    values: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(values, value, group=group)
    return values
