"""A data loader of torchtitan over a pipeline, resumable with another data-parallel degree."""

# torchtitan's own loaders save a state for each data-parallel rank, and refuse to load the states
# of another number of ranks. Here the keys are the keys of a `PipelineIterator`: values shared by
# all ranks are saved once, and each partition has a key. torchtitan's `CheckpointManager` passes
# the keys to `torch.distributed.checkpoint`.
#
# torchtitan's training loop turns the end of the loader into a `DataloaderExhaustedError`, and its
# validator waits for the plain end. So the loader ends as any iterator does.

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torchtitan.components.dataloader import BaseDataLoader

import resumable as rs
from resumable.core.named_state import named_by, state_for
from resumable.errors import shorten
from resumable.stages.global_order import rank_share_of
from resumable.state.encoding import dumps_frozen

from .cursor import KEY
from .dataset import PipelineDataset
from .loader import ResumableDataLoader

__all__ = ["PipelineDataLoader"]


class PipelineDataLoader(BaseDataLoader):
    """The batches of a pipeline, built in the way of torchtitan.

    A subclass defines the pipeline of a rank in `build_pipeline`, and has a separate ``Config`` for
    the arguments. The trainer builds the loader by ``config.build(...)``, and its
    ``CheckpointManager`` saves the loader.

    Each loop over the loader is an epoch. The trainer has one loop, so let the pipeline have as
    many epochs as needed, by ``repeat``. If ranks own partitions, let the pipeline be endless, or
    some ranks end before others.

    State: as of the pipeline after the batches received by the loop, under the keys of
    `resumable.PipelineIterator.state_dict`. So the data-parallel degree may change on resume,
    unless a stage holds items of its rank. The number of workers may change too.

    Args:
      config: of the class.
      dp_world_size: the data-parallel degree.
      dp_rank: this rank, below ``dp_world_size``.
      tokenizer: torchtitan's, for `build_pipeline`.
      seq_len: number of tokens of a row, for `build_pipeline`.
      local_batch_size: number of rows of a batch of this rank, for `build_pipeline`.
      snapshot_every_n_steps: not needed, since the state is known at every step.

    Attributes:
      loader: makes the batches.
      dp_rank: the argument.
      dp_world_size: the argument.
      batch_size: ``local_batch_size``.

    Raises:
      InvalidType: if `build_pipeline` returns no pipeline.
      InvalidArgument: if the pipeline is not dealt to this rank of ``dp_world_size``.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """Arguments of `build_pipeline` and the workers, from torchtitan's command line.

        Attributes:
          infinite: whether the pipeline shall never end, for `build_pipeline`. The validator sets
            it.
          num_workers: number of worker processes.
          persistent_workers: whether workers outlive an epoch.
          prefetch_factor: number of batches ready in each worker, 2 by default.
          pin_memory: whether batches lie in pinned memory.
        """

        infinite: bool = True
        num_workers: int = 0
        persistent_workers: bool = False
        prefetch_factor: int | None = None
        pin_memory: bool = False

    def __init__(
        self,
        config: Config,
        *,
        dp_world_size: int,
        dp_rank: int,
        tokenizer: Any = None,
        seq_len: int,
        local_batch_size: int,
        snapshot_every_n_steps: int | None = None,
    ) -> None:
        self.dp_rank, self.dp_world_size = dp_rank, dp_world_size
        self.batch_size = local_batch_size
        pipeline = self.build_pipeline(
            config,
            dp_rank=dp_rank,
            dp_world_size=dp_world_size,
            tokenizer=tokenizer,
            seq_len=seq_len,
            local_batch_size=local_batch_size,
        )
        _check_dealt(pipeline, dp_rank, dp_world_size)
        workers: dict[str, Any] = {}
        if config.num_workers:
            workers = {
                "persistent_workers": config.persistent_workers,
                "prefetch_factor": config.prefetch_factor,
            }
        self.loader: ResumableDataLoader[Any] = ResumableDataLoader(
            PipelineDataset(pipeline),
            None,
            num_workers=config.num_workers,
            pin_memory=config.pin_memory,
            **workers,
        )

    @abstractmethod
    def build_pipeline(
        self,
        config: Any,
        *,
        dp_rank: int,
        dp_world_size: int,
        tokenizer: Any,
        seq_len: int,
        local_batch_size: int,
    ) -> rs.Pipeline[Any]:
        """The pipeline of a rank.

        Items are pairs of a dict of arrays or tensors, with the key ``"input"``, and labels.

        Args:
          config: of the loader.
          dp_rank: this rank.
          dp_world_size: the number of ranks; ``shard(dp_rank, dp_world_size)`` deals the pipeline
            to the ranks.
          tokenizer: torchtitan's.
          seq_len: number of tokens of a row.
          local_batch_size: number of rows of a batch.
        """

    @property
    def num_workers(self) -> int:
        """Number of worker processes."""
        return int(self.loader.num_workers)

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        # Torch makes lists of the tuples in a batch.
        return map(tuple, self.loader)

    def state_dict(self) -> dict[str, bytes]:
        """The state after the batches received by the loop, by the keys of a `PipelineIterator`."""
        return named_by(self.loader._stage, rs.loads(self.loader.state_dict()[KEY]))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop, saved with any data-parallel degree.

        Raises:
          StateMismatch: if ``state_dict`` is empty, of another pipeline, or lacks parts of this
            rank.
        """
        state = state_for(self.loader._stage, state_dict)
        self.loader.load_state_dict({KEY: dumps_frozen(state)})


def _check_dealt(pipeline: rs.Pipeline[Any], rank: int, ranks: int) -> None:
    if not isinstance(pipeline, rs.Pipeline):
        raise rs.InvalidType(f"build_pipeline must return a pipeline, got {shorten(pipeline)}")
    share = rank_share_of(pipeline.stage)
    if share != (rank, ranks):
        raise rs.InvalidArgument(
            f"the pipeline must be dealt to rank {rank} of {ranks} data-parallel ranks, by "
            f"shard(dp_rank, dp_world_size), got one of rank {share.rank} of {share.ranks}"
        )
