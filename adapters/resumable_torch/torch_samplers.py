"""The order described by a sampler of torch."""

# Torch's random samplers draw from a generator. If only the seed is missing from the description,
# the order here is `shuffle(seed)` over the same indices. Any other behaviour of a sampler is
# refused.
#
# Lightning, Fabric and ignite make a loader or a batch sampler again, with their own sampler.

from __future__ import annotations

from typing import Any, Final

from torch.utils.data import (
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import resumable as rs
from resumable.errors import shorten

from .callers import refuse_framework
from .data_identity import identity_of_indices, rows_of

__all__ = ["is_torch_sampler", "order_of_sampler"]

INSTEAD: Final[dict[type, str]] = {
    DistributedSampler: "write ResumableDistributedSampler with the same arguments",
    WeightedRandomSampler: "write rs.range(len(weights)).sample(weights, seed=0, count=n)",
    RandomSampler: (
        "write rs.range(n).shuffle(seed).repeat().take(k), or with replacement rs.range(n).sample([1] * n, seed=0, count=k)"
    ),
}


def is_torch_sampler(sampler: object) -> bool:
    """Whether the class of ``sampler`` is torch's own, not a subclass."""
    return type(sampler).__module__.startswith("torch.utils.data")


def order_of_sampler(sampler: Sampler[Any]) -> tuple[rs.Pipeline[int], bool]:
    """The indices of ``sampler`` before any shuffle, and whether ``sampler`` shuffles.

    Raises:
      InvalidArgument: if Lightning, Fabric or ignite passed ``sampler``, or it has a generator.
      InvalidType: if ``sampler`` is not one pass over indices, in order or shuffled.
    """
    refuse_framework(sampler)
    kind = type(sampler)
    if isinstance(sampler, SequentialSampler) and kind is SequentialSampler:
        return rows_of(sampler.data_source), False
    if getattr(sampler, "generator", None) is not None:
        raise rs.InvalidArgument(
            f"a {kind.__name__} must have no generator, got {shorten(sampler)}: its order is that of seed=, an "
            "argument of ResumableDataLoader and ResumableSampler"
        )
    if isinstance(sampler, SubsetRandomSampler) and kind is SubsetRandomSampler:
        indices = list(map(int, sampler.indices))
        return rs.from_sequence(indices, identity=identity_of_indices(indices)), True
    if isinstance(sampler, RandomSampler) and kind is RandomSampler:
        rows = sampler.data_source
        if not sampler.replacement and sampler.num_samples == len(rows):
            return rows_of(rows), True
    advice = INSTEAD.get(
        kind, "pass it to ResumableDataLoader as sampler, or batches of indices as batch_sampler"
    )
    raise rs.InvalidType(f"the order of {shorten(sampler)} cannot be resumed: {advice}")
