"""Different states of ranks, saved together: a key for each partition or rank, or one state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

import torch.distributed as dist

import resumable as rs
from resumable.core.merging import merge_owner_states
from resumable.core.named_state import named_by, state_for
from resumable.core.savers import GuardedStateDict
from resumable.core.stage import Stage
from resumable.errors import shorten
from resumable.state.encoding import dumps_frozen
from resumable.state.named import named

from .cursor import KEY, state_in
from .drawing import HasCursor

__all__ = ["JoinedState", "PartitionedState", "gather_state"]

T = TypeVar("T")


class Stateful(Protocol):
    """A `ResumableDataLoader`, a `PipelineDataset` or a sampler."""

    def state_dict(self) -> dict[str, bytes]:
        """The state of the loop."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop."""


HasState: TypeAlias = "Stateful | rs.PipelineIterator[Any]"


class PartitionedState:
    """The state of a loader with a key for each partition, for `torch.distributed.checkpoint`.

    Call ``dcp.save({"input": PartitionedState(loader)}, ...)`` on some ranks and ``dcp.load`` on
    any other number. Each rank saves its own partitions and loads the partitions owned after the
    resume. Ranks with the same partitions, such as a tensor-parallel group, save the partitions
    once.

    Without partitions, the loader's single key is used; or a key of the rank, such as
    ``rank/00003-of-00064``, if a stage after `shard` holds items of the rank. Then as many ranks
    must resume.

    Args:
      loader: owner of the state: a `ResumableDataLoader`, a `PipelineDataset`, or an iterator of a
        pipeline.

    Raises:
      InvalidType: if ``loader`` has no state.
    """

    def __init__(self, loader: HasState) -> None:
        self._loader = _checked(loader)

    @property
    def pipeline(self) -> rs.Pipeline[Any] | None:
        """The pipeline of the state, if known."""
        return None if self._stage is None else rs.Pipeline(self._stage)

    @property
    def _stage(self) -> Stage[Any] | None:
        loader: Any = self._loader
        return loader._stage if isinstance(loader, (rs.PipelineIterator, HasCursor)) else None

    @GuardedStateDict
    def state_dict(self) -> dict[str, bytes]:
        """A serialised state for each partition of this rank (``partition/00007``), or for all.

        Raises:
          ExternalStateError: if registered with Accelerate, which would keep only the partitions of
            rank 0.
        """
        state = rs.loads(_whole_state(self._loader)[KEY])
        keyed, stage = named(state), self._stage
        if KEY in keyed and stage is not None and stage._rank_share.ranks > 1:
            return named_by(stage, state)
        return keyed

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the loader continue at ``state_dict``, which may have more partitions than needed.

        Raises:
          StateMismatch: if a partition of this rank is missing, or the partitions are not of one
            step of one pipeline. Only a finished rank may be some steps behind; the steps are
            compared if no stage upon the partitions has several inputs.
        """
        _load(self._loader, {KEY: dumps_frozen(state_for(self._stage, state_dict))})


class JoinedState:
    """The state of all ranks that own partitions, for savers of rank 0 only, such as Accelerate.

    Call ``accelerator.register_for_checkpointing(JoinedState(loader))``. `state_dict` is
    `gather_state`, so every rank must call `state_dict` after the same step, as Accelerate does in
    ``save_state``. The state can be loaded on any number of ranks.

    Args:
      loader: owner of the state: a `ResumableDataLoader`, a `PipelineDataset`, or an iterator of a
        pipeline.
      group: the ranks; by default all. Without `torch.distributed`, a single rank.

    Raises:
      InvalidType: if ``loader`` has no state.
    """

    def __init__(self, loader: HasState, group: dist.ProcessGroup | None = None) -> None:
        self._loader = _checked(loader)
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
          StateMismatch: if ``state_dict`` belongs to another pipeline; nothing changes then.
        """
        _load(self._loader, state_dict)


def gather_state(loader: HasState, group: dist.ProcessGroup | None = None) -> dict[str, bytes]:
    """The joined state of all ranks, on every rank, such as for ``torch.save`` on rank 0.

    Every rank of the group must call this function, after the same step. ``load_state_dict`` of a
    loader takes the state with any number of ranks. An iterator has no such method; use
    `JoinedState`.

    Args:
      loader: owner of this rank's state: a `ResumableDataLoader`, a `PipelineDataset`, or an
        iterator of a pipeline.
      group: the ranks; by default all. Without `torch.distributed`, a single rank.

    Raises:
      StateMismatch: if the states cannot be joined, on every rank.
      InvalidType: if ``loader`` has no state.
    """
    return gathered(_whole_state(_checked(loader)), group)


def gathered(state_dict: dict[str, bytes], group: Any = None) -> dict[str, bytes]:
    """The joined state of all ranks; ``state_dict`` is the state of this rank."""
    if not has_ranks():
        return state_dict
    states = of_all_ranks(state_dict[KEY], group)
    return {KEY: dumps_frozen(merge_owner_states(map(rs.loads, states)))}


def has_ranks() -> bool:
    """Whether `torch.distributed` is in use."""
    return dist.is_available() and dist.is_initialized()


def of_all_ranks(value: T, group: Any = None) -> list[T]:
    """The value of each rank, on every rank; without `torch.distributed`, this value alone."""
    if not has_ranks():
        return [value]
    values: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(values, value, group=group)
    return values


def _checked(loader: Any) -> HasState:
    """``loader``, if it has a state.

    Raises:
      InvalidType: if ``loader`` has no state.
    """
    if not (hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")):
        raise rs.InvalidType(
            "loader must be a ResumableDataLoader, a PipelineDataset or an iterator of a pipeline, got "
            f"{shorten(loader)}"
        )
    return loader  # type: ignore[no-any-return]


def _whole_state(loader: HasState) -> dict[str, bytes]:
    """The state of ``loader`` under one key; an iterator's may have a key for each partition."""
    if isinstance(loader, rs.PipelineIterator):
        return {KEY: dumps_frozen(loader.get_state())}
    return loader.state_dict()


def _load(loader: HasState, state_dict: Mapping[str, Any]) -> None:
    """Let ``loader`` continue at a state under one key."""
    if isinstance(loader, rs.PipelineIterator):
        loader.set_state(state_in(state_dict))
    else:
        loader.load_state_dict(state_dict)
