"""A drop-in for torch's ``DistributedSampler``; the number of ranks may change on resume."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import torch.distributed as dist
from torch.utils.data import DistributedSampler

import resumable as rs
from resumable.core.arguments import check_bool, check_int

from .rank_states import has_ranks
from .sample_order import as_order
from .sampler import ResumableSampler

__all__ = ["ResumableDistributedSampler"]


class ResumableDistributedSampler(ResumableSampler, DistributedSampler[Any]):  # type: ignore[override]
    """One rank's part of a global order, dealt out in rounds: a sample to each rank in turn.

    Lightning and Fabric leave this sampler unchanged, since it is a ``DistributedSampler``.

    State: the global position, the same bytes on every rank. Any number of ranks continues the
    global order, so the state of rank 0 is enough for all. Each loop is a new epoch, also without
    `set_epoch`; existing code may still call `set_epoch`.

    Args:
      dataset: any object with a length, or a ``SequentialSampler``, ``RandomSampler`` or
        ``SubsetRandomSampler`` of torch, to deal out its indices.
      num_replicas: the number of ranks; by default from `torch.distributed`.
      rank: by default from `torch.distributed`.
      shuffle: whether each epoch has a separate random order.
      seed: of the order, the same on every rank.
      drop_last: whether a last round with too few samples is left out; else the round is filled up
        by repeating its own samples.
      with_position: as for `ResumableSampler`; the position counts in the global order.

    Raises:
      InvalidArgument: if ``rank`` is not below ``num_replicas``, or neither is given and
        `torch.distributed` is not initialised.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        *,
        with_position: bool = False,
    ) -> None:
        if (num_replicas is None or rank is None) and not has_ranks():
            raise rs.InvalidArgument(
                "num_replicas and rank must be given where torch.distributed is not initialised, "
                f"got {num_replicas!r} and {rank!r}"
            )
        self.dataset: Any = dataset
        self.num_replicas = dist.get_world_size() if num_replicas is None else num_replicas
        self.rank = dist.get_rank() if rank is None else rank
        self.shuffle = check_bool("shuffle", shuffle)
        self.seed = seed
        self.drop_last = check_bool("drop_last", drop_last)
        check_int("num_replicas", self.num_replicas, minimum=1)
        # A pipeline is looked up by index here, as any data set.
        source = len(dataset) if isinstance(dataset, rs.Pipeline) else dataset
        dealt = as_order(source, shuffle, seed).shard(
            self.rank, self.num_replicas, uneven="drop" if self.drop_last else "pad"
        )
        super().__init__(dealt, with_position=with_position)

    @property
    def num_samples(self) -> int:  # type: ignore[override]
        """Number of samples of this rank in an epoch."""
        return len(self)

    @property
    def total_size(self) -> int:  # type: ignore[override]
        """Number of samples of all ranks in an epoch."""
        return len(self) * self.num_replicas
