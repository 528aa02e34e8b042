"""The sampler of a loader, made of what the user passes as ``sampler`` or ``batch_sampler``."""

from __future__ import annotations

from typing import Any

from torch.utils.data import BatchSampler

import resumable as rs
from resumable.errors import shorten

from .sampler import ResumableBatchSampler, ResumableSampler
from .torch_samplers import is_torch_sampler, refuse_framework

__all__ = ["batches_of", "samples_of"]


def samples_of(sampler: Any, seed: int | None, with_position: bool) -> ResumableSampler:
    """What a loader draws indices from.

    Raises:
      InvalidArgument: if a framework passed the sampler.
      InvalidType: if it cannot be resumed.
    """
    if isinstance(sampler, ResumableSampler):
        return sampler
    if isinstance(sampler, rs.Pipeline) or is_torch_sampler(sampler):
        return ResumableSampler(sampler, seed=seed, with_position=with_position)
    refuse_framework(sampler)
    raise rs.InvalidType(f"sampler must be a ResumableSampler, got {shorten(sampler)}")


def batches_of(batch_sampler: Any) -> ResumableBatchSampler:
    """What a loader draws batches of indices from.

    Raises:
      InvalidArgument: if a framework passed the sampler.
      InvalidType: if it cannot be resumed.
    """
    if isinstance(batch_sampler, ResumableBatchSampler):
        return batch_sampler
    refuse_framework(batch_sampler)
    if type(batch_sampler) is BatchSampler:
        inner: Any = batch_sampler.sampler
        if isinstance(inner, ResumableSampler) or is_torch_sampler(inner):
            return ResumableBatchSampler(inner, batch_sampler.batch_size, batch_sampler.drop_last)
    raise rs.InvalidType(
        f"batch_sampler must be a ResumableBatchSampler, got {shorten(batch_sampler)}"
    )
