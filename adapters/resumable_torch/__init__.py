"""PyTorch's samplers, `DataLoader` and `IterableDataset`, resumed exactly in mid-epoch."""

# `cursor` holds the place of the loop in the passes over a pipeline; everything else translates:
# `sampler`, `distributed` and `dataset` are named as in torch, `loader` counts the batches that the loop
# received, `randomness` gives each sample its own generator, and `tensors` lets a source keep tensors in
# its state. `no_worker` hides the worker from the sources that are read in it, and `marks` are the
# states that come out of a worker. Where a pipeline has partitions, `shares` are those of a worker, and
# `partitions` saves those of all ranks. `one_step` refuses partitions of different steps, and `one_rank` a
# saver that keeps the partitions of one rank alone. `stateful` is whatever has the state of a rank.
# `lightning` and `transformers` have one callback each and must be imported by their own names.

from __future__ import annotations

from .dataset import PipelineDataset as PipelineDataset
from .distributed import ResumableDistributedSampler as ResumableDistributedSampler
from .loader import ResumableDataLoader as ResumableDataLoader
from .partitions import JoinedState as JoinedState
from .partitions import PartitionedState as PartitionedState
from .partitions import gather_state as gather_state
from .randomness import rng_for as rng_for
from .sampler import ResumableBatchSampler as ResumableBatchSampler
from .sampler import ResumableSampler as ResumableSampler
from .tensors import with_tensors as with_tensors
