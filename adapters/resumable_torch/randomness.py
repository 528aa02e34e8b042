"""Randomness that belongs to a sample, in any worker and after any resume."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from resumable.core.arguments import check_int, check_seed
from resumable.order.random_bits import derive, generator

__all__ = ["rng_for"]


def rng_for(position: int, seed: int = 0) -> np.random.Generator:
    """The generator of the sample at ``position``, the same in any worker and after a resume.

    Args:
      position: of the sample in the whole run, from a sampler with ``with_position=True``.
      seed: of the run.

    Raises:
      InvalidArgument: if ``position`` is below 0.
    """
    return generator(derive(check_seed("seed", seed)), check_int("position", position, minimum=0))


@contextmanager
def draws_of(*words: int) -> Iterator[None]:
    """A context with torch's global generator seeded by ``words``; afterwards restored."""
    kept = torch.get_rng_state()
    torch.default_generator.manual_seed(derive(*words))
    try:
        yield
    finally:
        torch.set_rng_state(kept)
