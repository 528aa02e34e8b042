"""States of ranks that own partitions, saved together: a key for each partition, or one state of all."""

# The state of a rank has the rank's own partitions. `torch.distributed.checkpoint` keeps the values
# of equal keys once, and loads the keys that a rank asks for. So with a key for each partition, any
# number of ranks finds what it needs. Each value is a whole state with only this partition, and
# `merge_owner_states` joins them.

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import torch.distributed as dist

import resumable as rs
from resumable.state.columns import as_columns, as_rows
from resumable.state.encoding import dumps_frozen
from resumable.state.merging import PARTITIONS, is_of_partitions, merge_owner_states

from .accelerate_guard import keeps_rank_state
from .cursor import KEY
from .partition_steps import check_one_step
from .stateful import Stateful, as_stateful, pipeline_of

__all__ = ["JoinedState", "PartitionedState", "gather_state"]

T = TypeVar("T")

PREFIX: Final = "partition/"


class PartitionedState:
    """The state of a loader with a key for each partition, for `torch.distributed.checkpoint`.

    Call ``dcp.save({"input": PartitionedState(loader)}, ...)`` on some ranks and ``dcp.load`` on
    any other number. Each rank saves its own partitions and loads those that it then owns. Ranks
    with the same partitions, such as a tensor-parallel group, save them once.

    If the pipeline has no partitions, there is the one key of the loader.

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
        """A serialised state for each partition of this rank, under ``partition/00007`` and so on.

        Raises:
          ExternalStateError: if it is registered with Accelerate, which would keep only the
            partitions of rank 0.
        """
        own = self._loader.state_dict()
        parts = _split(rs.loads(own[KEY])).parts
        if not parts:
            return own
        return {f"{PREFIX}{number:05}": dumps_frozen(part) for number, part in parts.items()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the loader continue at ``state_dict``, which may have more partitions than it needs.

        Raises:
          StateMismatch: if a partition that this rank owns is missing, or the partitions are not of
            one step of one pipeline. Only a rank that has ended may be some steps behind; this is
            not checked below stages with several inputs (`mix`, `zip`).
        """
        if KEY not in state_dict:
            states = [rs.loads(value) for value in state_dict.values()]
            joined = merge_owner_states(states)
            check_one_step(states, pipeline_of(self._loader))
            state_dict = {KEY: dumps_frozen(joined)}
        self._loader.load_state_dict(state_dict)


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


class _Split(NamedTuple):
    """A value by partitions.

    Attributes:
      parts: the value with one partition alone, by its number.
      rest: the value without any.
    """

    parts: dict[int, Any]
    rest: Any


def _split(value: Any) -> _Split:
    if isinstance(value, list):
        return _joined(list, [_split(part) for part in value])
    if not isinstance(value, dict):
        return _Split({}, value)
    if not is_of_partitions(value):
        names = list(value)
        return _joined(
            lambda parts: dict(zip(names, parts, strict=True)),
            [_split(part) for part in value.values()],
        )
    numbers = value[PARTITIONS]
    rows = as_rows({name: value[name] for name in value if name != PARTITIONS}, len(numbers))
    parts = {
        number: {PARTITIONS: [number], **as_columns([row])}
        for number, row in zip(numbers, rows, strict=True)
    }
    return _Split(parts, {name: [] for name in value})


def _joined(build: Callable[[list[Any]], Any], splits: list[_Split]) -> _Split:
    """What ``build`` makes of ``splits``, by partitions."""
    numbers = {number for split in splits for number in split.parts}
    parts = {
        number: build([split.parts.get(number, split.rest) for split in splits])
        for number in sorted(numbers)
    }
    return _Split(parts, build([split.rest for split in splits]))
