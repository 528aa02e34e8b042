"""PyTorch's samplers, `DataLoader` and `IterableDataset`, resumed exactly mid-epoch."""

# `cursor` holds the place of the loop, a value of `place`: the epoch, and the progress in the
# epoch. All other modules translate. `loader`, `sampler`, `distributed` and `dataset` are named as
# in torch; `loader` begins with the way of an item, of a state and of a resume, and `loop` runs
# through the batches. `sample_order` makes the order of a sampler, and `replayed` draws the order
# of a user's sampler. `drawing` is the common part. `batch_states` sends states out of a worker
# with the batches. `torch_progress` counts the batches taken by torch. `hidden_worker` hides
# torch's worker from the sources in the worker. `randomness` gives each sample its own generator;
# `tensors` lets a source keep tensors in its state. `device_prefetch` copies batches to a device
# ahead of the loop.
#
# If a pipeline has partitions, `worker_shares` divides the partitions among workers, and
# `rank_states` saves the partitions of all ranks. `callers` finds the calling framework.
#
# `lightning` and `transformers` have one callback each, `torchtitan` has a data loader. The three
# modules must be imported by their own names.

from __future__ import annotations

from .dataset import PipelineDataset as PipelineDataset
from .device_prefetch import DevicePrefetch as DevicePrefetch
from .device_prefetch import device_prefetch as device_prefetch
from .distributed import ResumableDistributedSampler as ResumableDistributedSampler
from .loader import ResumableDataLoader as ResumableDataLoader
from .randomness import rng_for as rng_for
from .rank_states import JoinedState as JoinedState
from .rank_states import PartitionedState as PartitionedState
from .rank_states import gather_state as gather_state
from .sampler import ResumableBatchSampler as ResumableBatchSampler
from .sampler import ResumableSampler as ResumableSampler
from .tensors import with_tensors as with_tensors
