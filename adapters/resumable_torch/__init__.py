"""PyTorch's samplers, `DataLoader` and `IterableDataset`, resumed exactly in mid-epoch."""

# `cursor` holds the place of the loop in the passes over a pipeline. All other modules translate:
# `sampler`, `distributed` and `dataset` are named as in torch; `loader` counts the batches that the
# loop received; `randomness` gives each sample its own generator; `tensors` lets a source keep
# tensors in its state. `no_worker` hides torch's worker from the sources that run in it. `marks`
# sends states out of a worker. If a pipeline has partitions, `shares` divides them among workers,
# and `partitions` saves those of all ranks; `one_step` refuses partitions of different steps, and
# `one_rank` refuses a saver that keeps the partitions of one rank only. `stateful` names what has
# the state of a rank. `lightning` and `transformers` have one callback each and must be imported
# by their own names.

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
